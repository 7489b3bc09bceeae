"""The scenarios, one a file; each file's SCENARIO says what is broken and what must hold."""

from __future__ import annotations

import importlib
import pkgutil

from app.faults.scenario import Scenario

ORDER = (
    "store_slow_then_black_hole",
    "store_flaky",
    "store_killed",
    "overload_3x",
    "prefetch_spike",
    "worker_killed",
    "worker_stopped",
    "rolling_reload",
    "config_pushes",
    "resets",
    "hanging_model",
    "nan_model",
    "clock_jump",
    "full_disk",
    "soak",
)


def scenarios() -> dict[str, Scenario]:
    """All by name, in the order in which they are run."""
    found = {name: importlib.import_module(f"{__name__}.{name}").SCENARIO for name in _names()}
    return {name: found[name] for name in sorted(found, key=ORDER.index)}


def _names() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__)]
