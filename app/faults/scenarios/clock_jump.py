"""The wall clock jumps, forward and back: deadlines run on a monotonic one."""

from __future__ import annotations

import asyncio
import shutil
import struct
from pathlib import Path

from app.faults import jumping_clock
from app.faults.requirements import in_time, no_empty_list, no_error
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import staged
from app.faults.timeline import play

JUMPS = (3600.0, -3600.0, 60.0, 0.0)
"""Offsets from the real clock in seconds, one after the other."""
LESS_FULL = 0.01


async def run(kit: Kit) -> Verdict:
    """One worker whose wall clock has an offset; the kernel's clock is left alone."""
    verdict, path = Verdict(), kit.folder / "offset"
    seconds = kit.seconds(5.0, 2.0)
    _set(path, 0.0)
    hook = kit.folder / "hook"
    hook.mkdir()
    shutil.copy(jumping_clock.__file__, hook / "sitecustomize.py")
    async with staged(kit, env={"PYTHONPATH": str(hook), jumping_clock.VARIABLE: str(path)}) as stage:
        jumpy = all(path.with_name(f"{path.name}.{pid}").exists() for pid in stage.server.workers)
        verdict.must(jumpy, "the workers' clocks are the ones that jump")

        async def fault() -> None:
            for offset in JUMPS:
                kit.say(f"the wall clock is {offset:+.0f} s off")
                _set(path, offset)
                await asyncio.sleep(seconds)

        played = await play(stage, verdict, fault, seconds * len(JUMPS))
    verdict.note("reasons", dict(played.result.reasons()))
    in_time(verdict, "fault", played.fault, stage.budget)
    no_error(verdict, played.result)
    no_empty_list(verdict, played.result)
    least = played.steady.full_share - LESS_FULL
    share = played.fault.full_share
    verdict.must(share >= least, f"{share:.2%} of the lists are of full quality, at least {least:.2%}")
    return verdict


def _set(path: Path, offset: float) -> None:
    """In place: the service has the file mapped."""
    path.touch()
    with path.open("r+b") as file:
        file.write(struct.pack("<d", offset))


SCENARIO = Scenario(
    "clock_jump",
    "the service's wall clock jumps by an hour, forward and back",
    "no error, no empty list, served p99 within budget + 10 ms, as many lists of full quality as before",
    (42.0, 30.0),
    run,
)
