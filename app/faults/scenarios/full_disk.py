"""The disk that exposures, logs and pinned configurations are written to is full."""

from __future__ import annotations

import asyncio

from app.faults import procfs
from app.faults.disk import small_disk
from app.faults.place import Place
from app.faults.requirements import in_time, no_empty_list, no_error
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import staged
from app.faults.timeline import play

LESS_FULL = 0.01
LOST = ("recserve_exposures_dropped_total", "recserve_log_records_dropped_total")


async def run(kit: Kit) -> Verdict:
    """One worker, whose `var` and log lie on a disk of a few MiB; a scene with an experiment, if there is one."""
    verdict, seconds = Verdict(), kit.seconds(20.0, 6.0)
    var = kit.folder / "var"
    experiment = _with_experiment(kit.base)
    with small_disk(var) as disk:
        async with staged(kit, scene=experiment, log=var / "service.log") as stage:

            async def fault() -> None:
                kit.say(f"no room on the disk for {seconds:.0f} s ({disk.error})")
                disk.fill(procfs.family(stage.server.pid))
                await asyncio.sleep(seconds)
                disk.free()

            played = await play(stage, verdict, fault, seconds)
            counts = await stage.server.metrics()
    verdict.note("by", disk.error)
    for name in LOST:
        verdict.note(name, counts.get(name))
    lost = counts.get(LOST[0], 0.0)
    verdict.must(experiment is None or lost > 0, f"exposures that could not be written are counted: {lost:.0f}")
    in_time(verdict, "fault", played.fault, stage.budget)
    no_error(verdict, played.result)
    no_empty_list(verdict, played.result)
    least, share = played.steady.full_share - LESS_FULL, played.fault.full_share
    verdict.must(share >= least, f"{share:.2%} of the lists are of full quality, at least {least:.2%}")
    return verdict


def _with_experiment(place: Place) -> str | None:
    """A scene whose exposures are written, else None: the usual one."""
    scenes = place.document("abtest.yaml").get("scenes") or {}
    for name, scene in scenes.items():
        if any(layer.get("experiments") for layer in (scene.get("layers") or {}).values()):
            return str(name)
    return None


SCENARIO = Scenario(
    "full_disk",
    "no room for exposures, logs and pinned configurations for 20 s (6 s)",
    "no error, no empty list, served p99 within budget + 10 ms, as many lists of full quality as before",
    (45.0, 30.0),
    run,
)
