"""Whether a release is too old for what the scenes' filters promise."""

from __future__ import annotations

from app.config.catalog import Catalog, columns_of
from app.config.model import Config, ViewConfig
from app.config.problems import Problem
from app.config.quantities import UNITS, duration_text
from app.config.step_rules import columns_read
from stages.guard import POLICIES
from stages.scene import StepConfig


def stale_views(config: Config, age_seconds: float) -> list[Problem]:
    """A problem for each filter that fails closed and reads a release view whose `max_age` is below the age.

    `age_seconds` is the age of the release: now minus the time that its data are of. One that is no number is
    too old for any limit, one from the future is not.
    """
    columns = columns_of(config.service, config.features)
    catalog = Catalog(config.service, config.features, config.models, {}, columns=columns)
    return [
        config.problem(
            step.path,
            f"The filter {step.label} fails closed and reads {column} of the view {view.name!r}, and the release is "
            f"{_days(age_seconds)} old, over its max_age of {duration_text(view.max_age or 0.0)}. "
            "Build a newer release, raise max_age, or write on_fail: open.",
        )
        for scene in config.scenes.values()
        for step in scene.filters
        if (step.on_fail or POLICIES["filter"][0]) == "closed"
        for column, view in _limited(catalog, step).values()
        if view.max_age is not None and not age_seconds <= view.max_age
    ]


def _limited(catalog: Catalog, step: StepConfig) -> dict[str, tuple[str, ViewConfig]]:
    """Views with a limit that the step reads, each with the first of its columns there."""
    found: dict[str, tuple[str, ViewConfig]] = {}
    for name in sorted({stored for read in columns_read(step) for stored in catalog.reads(read)}):
        view, _ = catalog.features.fields.get(name, (None, None))
        if view is not None and view.max_age is not None:
            found.setdefault(f"{view.entity}.{view.name}", (name, view))
    return found


def _days(age: float) -> str:
    return f"{age / UNITS['d']:.1f} days" if age >= UNITS["d"] else f"{age / UNITS['h']:.1f} hours"
