"""Runs scenarios one after the other: a run that can't be judged is repeated once, and then discarded."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.config.problems import ConfigError
from app.faults import procfs
from app.faults.errors import Discarded, NotShown, TooLong
from app.faults.place import Place
from app.faults.scenario import Kit, Scenario, Verdict
from app.load.process import LoadFailed
from features.errors import StoreError

TRIES = 2
LIMIT, STARTING = 2.0, 180.0


@dataclass(frozen=True, slots=True)
class Report:
    """How a scenario went. `holds` is None for a discarded run: nothing was shown either way."""

    name: str
    holds: bool | None
    seconds: float
    figures: dict[str, Any] = field(default_factory=dict)
    broken: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As `--json` prints it; `holds` is true or false, `discarded` says that it was neither."""
        more: dict[str, Any] = {"discarded": True} if self.holds is None else {}
        if self.broken:
            more["broken"] = list(self.broken)
        return {
            "name": self.name,
            "holds": bool(self.holds),
            **more,
            "seconds": round(self.seconds, 1),
            "figures": self.figures,
        }


@dataclass(frozen=True, slots=True)
class Options:
    """How scenarios are run: over what, where, how long, and how a person is told."""

    base: Place
    scratch: Path
    short: bool
    say: Callable[[str, str], None]


def run_all(scenarios: Sequence[Scenario], options: Options) -> list[Report]:
    """Run them in order, each on a stage of its own."""
    with pinned() as (cores, spare):
        return [_run(scenario, options, cores, spare) for scenario in scenarios]


@contextlib.contextmanager
def pinned() -> Iterator[tuple[frozenset[int], frozenset[int]]]:
    """Cores for the service, and the last one for this process and what it starts; one core is shared."""
    every = sorted(os.sched_getaffinity(0))
    spare = frozenset(every[-1:])
    os.sched_setaffinity(0, spare)
    try:
        yield frozenset(every[:-1]) or spare, spare
    finally:
        os.sched_setaffinity(0, every)


def _run(scenario: Scenario, options: Options, cores: frozenset[int], spare: frozenset[int]) -> Report:
    started, why, others = time.monotonic(), "", _Others()
    for attempt in range(TRIES):
        folder = Path(tempfile.mkdtemp(prefix=f"{scenario.name}-", dir=options.scratch))
        kit = Kit(options.base, folder, options.short, cores, spare, lambda text: options.say(scenario.name, text))
        try:
            verdict = asyncio.run(_bounded(scenario, kit))
            verdict.note("others_cpu", others.share())
            return Report(
                scenario.name, verdict.holds, time.monotonic() - started, verdict.figures, tuple(verdict.broken)
            )
        except Discarded as discarded:
            why = f"{type(discarded).__name__.lower()}: {discarded}"
            kit.say(f"{why}; " + ("once more" if attempt + 1 < TRIES else "discarded"))
        except (NotShown, StoreError, ConfigError, LoadFailed, OSError) as error:
            # What the scenario needs broke down outside of what it judges: that doesn't hold either.
            return Report(scenario.name, False, time.monotonic() - started, {}, (f"{type(error).__name__}: {error}",))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return Report(scenario.name, None, time.monotonic() - started, {"discarded": why, "others_cpu": others.share()})


async def _bounded(scenario: Scenario, kit: Kit) -> Verdict:
    """Play it; a scenario that hangs, or a service that makes it hang, ends too."""
    limit = LIMIT * scenario.seconds[kit.short] + STARTING
    try:
        async with asyncio.timeout(limit):
            return await scenario.run(kit)
    except TimeoutError:
        raise TooLong(f"the scenario did not end within {limit:.0f} s") from None


class _Others:
    """How busy the machine is with what isn't the scenario's: latencies of a shared core are not the service's own."""

    def __init__(self) -> None:
        self._began = self._now()

    def share(self) -> float:
        """Of all cores' time since this was made, the share that others took."""
        wall, machine, own = (now - before for now, before in zip(self._now(), self._began, strict=True))
        return round(max(machine - own, 0.0) / (wall * (os.cpu_count() or 1)), 3)

    def _now(self) -> tuple[float, float, float]:
        return time.monotonic(), procfs.machine_seconds(), procfs.own_seconds()
