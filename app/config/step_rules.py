"""What a step depends on, and the two rules about it: how many variants, and what a closed filter reads."""

from __future__ import annotations

from math import prod

from app.config.catalog import HISTORY, Catalog
from app.config.findings import Findings
from expression import Expression, ExpressionError, names_of, parameters_of
from stages.guard import POLICIES
from stages.registry import core_of, settings_of
from stages.roles import ColumnName
from stages.scene import Param, StepConfig
from stages.types import Scalar

MAX_VARIANTS = 32


def params_of(step: StepConfig) -> frozenset[str]:
    """Names of the experiment parameters that the step depends on: settings, expressions, `keep`, `when`."""
    names = set().union(*map(_parameters, _texts(step)))
    given = (*step.settings.values(), step.keep)
    return frozenset(names | {value.name for value in given if isinstance(value, Param)})


def columns_read(step: StepConfig) -> frozenset[str]:
    """Names of the columns in the step's settings, expressions and `when`, defaults included."""
    names = {name for text in _texts(step) for name in names_of(text)}
    for setting in settings_of(step.component):
        value = step.settings.get(setting.name, setting.default)
        listed = value if isinstance(value, (list, tuple)) else (value,)
        names |= {str(one) for one in listed if isinstance(one, ColumnName)}
    return frozenset(names)


def _texts(step: StepConfig) -> list[str]:
    """The texts of the step's expressions."""
    found = [] if step.when is None else [step.when]
    for setting in settings_of(step.component):
        value = step.settings.get(setting.name)
        if core_of(setting.type)[0] is Expression and isinstance(value, str):
            found.append(value)
    return found


def _parameters(text: str) -> frozenset[str]:
    try:
        return parameters_of(text)
    except ExpressionError:  # reported when the text was bound
        return frozenset()


def values_of(catalog: Catalog, param: str) -> tuple[Scalar, ...]:
    """Every value that the configuration names for a parameter; none for one that is undeclared or refused."""
    declared = catalog.params.get(param)
    return declared.values if declared is not None else ()


def check_variants(findings: Findings, catalog: Catalog, step: StepConfig) -> None:
    """Report a step of more than 32 variants: each is built, and its memory held, at load."""
    counts = {name: len(values_of(catalog, name)) for name in sorted(params_of(step))}
    count = prod(counts.values())
    if count > MAX_VARIANTS:
        listed = ", ".join(f"{name} has {values}" for name, values in counts.items())
        message = f"The step has {count} variants ({listed} values). Expected at most {MAX_VARIANTS}."
        findings.add(step.path, message)


def check_closed(findings: Findings, catalog: Catalog, step: StepConfig) -> None:
    """Report a filter that fails closed and reads what an outage can take away."""
    if step.role != "filter" or (step.on_fail or POLICIES["filter"][0]) != "closed":
        return
    stored = {stored for name in columns_read(step) for stored in catalog.reads(name)}
    for name in sorted(stored):
        why = _not_resident(catalog, name)
        if why:
            findings.add(
                step.path,
                f"A filter that fails closed may read resident data only, and {name} {why}. "
                "Write on_fail: open, or keep the data in a release view without cache.",
            )


def _not_resident(catalog: Catalog, name: str) -> str | None:
    if catalog.columns.get(name) == HISTORY:
        return "is read from the store"
    view, _ = catalog.features.fields.get(name, (None, None))
    if view is None or (view.kind == "release" and view.cache is None):
        return None
    return f"is of the {'live' if view.kind == 'live' else 'cached'} view {view.name!r}"
