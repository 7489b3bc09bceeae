"""The ways to write a step, brought to one: a component's name, its settings, and the keys common to all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.config.bind import Binder
from app.config.problems import Path, choices, suggestion
from app.config.yaml_nodes import INVALID
from stages.registry import Registry
from stages.scene import Role

COMMON: Mapping[Role, tuple[str, ...]] = {
    "recall": ("use", "cap", "on_fail", "when", "at_least"),
    "filter": ("use", "cap", "on_fail", "when"),
    "pre_rank": ("cap", "on_fail", "when", "keep"),
    "rank": ("cap", "on_fail", "when"),
    "re_rank": ("cap", "on_fail", "when"),
}
EXPRESSION = "expression"


@dataclass(slots=True)
class Form:
    """A step as written. Settings by position and by key, each with the path it stands at."""

    role: Role
    label: str
    use: str
    path: Path
    use_path: Path
    positional: list[tuple[Any, Path]] = field(default_factory=list)
    named: dict[str, tuple[Any, Path]] = field(default_factory=dict)
    common: dict[str, tuple[Any, Path]] = field(default_factory=dict)


def named_form(binder: Binder, role: Role, name: str, value: Any, path: Path) -> Form | None:
    """`name: settings` of recall and filters; a filter may be just an expression."""
    if isinstance(value, str) and role == "filter":
        return Form(role, name, EXPRESSION, path, path, positional=[(value, path)])
    if value is None:
        return Form(role, name, name, path, path)
    if not isinstance(value, dict):
        also = " or an expression as text" if role == "filter" else ""
        binder.wrong(value, path, f"settings, such as {{k: 100}}{also}")
        return None
    form = Form(role, name, name, path, path)
    for key, entry in value.items():
        (form.common if key in COMMON[role] else form.named)[key] = (entry, (*path, key))
    if "use" in form.common:
        use, form.use_path = form.common.pop("use")
        if not isinstance(use, str) or use.startswith("$"):
            if isinstance(use, str):
                binder.findings.add(form.use_path, _no_param(f"{use} can't choose a component"))
            else:
                binder.wrong(use, form.use_path, "the name of a component")
            return None
        form.use = use
    return form


def _no_param(what: str) -> str:
    return f"{what}: structure is never a parameter. Name alternative steps and choose among them by 'when'."


def keyed_form(binder: Binder, role: Role, value: Any, path: Path, known: Collection[str]) -> Form | None:
    """`{component: positional, key: value}` of pre_rank, rank and re_rank."""
    if isinstance(value, str) and value in known:
        return Form(role, value, value, path, path)
    example = f"{{{next(iter(sorted(known)), 'component')}: ...}}"
    if not isinstance(value, dict):
        binder.wrong(value, path, f"one component with its settings, such as {example}")
        return None
    use = next((key for key in value if key in known), None)
    if use is None:
        others = [key for key in value if key not in COMMON[role]]
        near = suggestion(others[0], known) if others else f"Expected {choices(sorted(known))}."
        said = f"There is no {role} component {others[0]!r}" if others else f"No {role} component is named"
        binder.findings.add((*path, others[0]) if others else path, f"{said}. {near}")
        return None
    form = Form(role, use, use, path, (*path, use))
    for key, entry in value.items():
        if key != use:
            (form.common if key in COMMON[role] else form.named)[key] = (entry, (*path, key))
    _positional(binder, form, value[use], (*path, use))
    return form


def _positional(binder: Binder, form: Form, value: Any, path: Path) -> None:
    if isinstance(value, dict):
        for key, entry in value.items():
            target = form.common if key in COMMON[form.role] else form.named
            if key in target:
                binder.findings.add((*path, key), f"{key!r} also stands beside {form.use!r}. Keep one of them.")
            target.setdefault(key, (entry, (*path, key)))
    elif isinstance(value, list):
        form.positional = [(entry, (*path, index)) for index, entry in enumerate(value)]
    elif value is not None:
        form.positional = [(value, path)]


def forms_of(binder: Binder, scene: Mapping[str, Any], file: str, registry: Registry) -> list[Form]:
    """Every step of a scene, in the funnel's order; what can't be read is reported and left out."""
    found: list[Form | None] = []
    roles: tuple[tuple[str, Role], ...] = (("recall", "recall"), ("filters", "filter"))
    for section, role in roles:
        for name, value in _entries(scene.get(section)).items():
            if value is not INVALID:
                found.append(named_form(binder, role, name, value, (file, section, name)))
    single: tuple[Role, ...] = ("pre_rank", "rank")
    found += [
        keyed_form(binder, role, scene[role], (file, role), registry.of(role))
        for role in single
        if scene.get(role) not in (None, INVALID)
    ]
    found += _re_rank(binder, scene.get("re_rank"), (file, "re_rank"), registry)
    return [form for form in found if form is not None]


def _entries(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _re_rank(binder: Binder, value: Any, path: Path, registry: Registry) -> list[Form | None]:
    if value is None or value is INVALID:
        return []
    if not isinstance(value, list):
        binder.wrong(value, path, "a list of steps: - mmr: {...}")
        return []
    found: list[Form | None] = []
    counts: dict[str, int] = {}
    for index, entry in enumerate(value):
        form = None
        if entry is not INVALID:
            form = keyed_form(binder, "re_rank", entry, (*path, index), registry.of("re_rank"))
        if form is not None:
            counts[form.use] = counts.get(form.use, 0) + 1
            # Metrics and traces hang on the name: a second step of one kind gets its own.
            form.label = form.use if counts[form.use] == 1 else f"{form.use}_{counts[form.use]}"
        found.append(form)
    return found
