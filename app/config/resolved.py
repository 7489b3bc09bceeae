"""A scene as it will run: every default filled in, and beside each value where it came from.

What is printed is a scene file again: reading it gives the same scene.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.config.model import Config
from app.config.problems import Path
from app.config.quantities import duration_text
from app.config.step_rules import params_of
from app.config.yaml_scalars import SURPRISING, WORDS
from stages.guard import POLICIES
from stages.registry import Duration, settings_of
from stages.scene import LadderConfig, Param, SceneConfig, StepConfig

PLAIN = re.compile(r"\$?[A-Za-z_][A-Za-z0-9_.]*")
KEYED = ("pre_rank", "rank", "re_rank")


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    comment: str = ""


def render_resolved(config: Config, scene: str) -> str:
    """The scene as YAML; each line's comment is `file:line` or which default it is. KeyError: no such scene."""
    lines = list(_Renderer(config, config.scenes[scene]).lines())
    width = min(60, max(len(line.text) for line in lines))
    shown = (f"{line.text:<{width}}  # {line.comment}" if line.comment else line.text for line in lines)
    return "\n".join(shown) + "\n"


def scalar_text(value: Any) -> str:
    """A value in flow style, quoted where YAML could read it otherwise."""
    if isinstance(value, Param):
        return f"${value.name}"
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, str):
        plain = PLAIN.fullmatch(value) and value not in WORDS and value not in SURPRISING
        return str(value) if plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(scalar_text, value))}]"
    return json.dumps(value)


class _Renderer:
    def __init__(self, config: Config, scene: SceneConfig) -> None:
        self.config = config
        self.scene = scene

    def lines(self) -> Iterator[_Line]:
        scene = self.scene
        yield _Line(f"# configuration {self.config.id}")
        yield self._key(0, "version", 1, (*scene.path, "version"), "")
        yield self._key(0, "scene", scene.name, (*scene.path, "scene"), "")
        yield self._key(0, "budget", Duration(scene.budget), (*scene.path, "budget"), "")
        yield from self._named("recall", scene.recall)
        yield _Line("merge:")
        yield self._key(2, "limit", scene.limit, (*scene.path, "merge", "limit"), "default")
        if scene.filters:
            yield from self._named("filters", scene.filters)
        for step in (scene.pre_rank, scene.rank):
            if step is not None:
                yield _Line(f"{step.role}:")
                yield from self._keyed(step, 2)
        if scene.re_rank:
            yield _Line("re_rank:")
            for step in scene.re_rank:
                first, *rest = self._keyed(step, 4)
                yield _Line("  - " + first.text.lstrip(), first.comment)
                yield from rest
        yield self._key(0, "return", scene.returned, (*scene.path, "return"), "default")
        if scene.fallback is not None:
            yield from self._fallback(scene.fallback)
        yield from self._ladder(scene.ladder)
        yield self._key(0, "priority", scene.priority, (*scene.path, "priority"), "default")

    def _fallback(self, table: str) -> Iterator[_Line]:
        path = (*self.scene.path, "fallback")
        yield _Line("fallback:")
        yield self._key(2, "table", table, path, "")
        if self.scene.group is not None:
            yield self._key(2, "by", self.scene.group, (*path, "by"), "default: what the groups are named for")

    def _ladder(self, ladder: LadderConfig) -> Iterator[_Line]:
        path = (*self.scene.path, "ladder")
        yield _Line("ladder:")
        yield self._key(2, "least", ladder.least, (*path, "least"), "default, and at most what is ranked")
        if ladder.skip is None:
            yield _Line("  # skip: the channels that wait for something")
        else:
            labels = [name.removeprefix("recall.") for name in ladder.skip]
            yield self._key(2, "skip", labels, (*path, "skip"), "")
        if ladder.small is None:
            yield _Line("  # model: no smaller one")
        else:
            yield self._key(2, "model", ladder.small.settings["model"], (*path, "model"), "")

    def _named(self, section: str, steps: tuple[StepConfig, ...]) -> Iterator[_Line]:
        yield _Line(f"{section}:")
        for step in steps:
            yield _Line(f"  {step.label}:", self._documented(step))
            own_name = _component(step) == step.label
            implied = "default: the step's name" if own_name else "default: a text is an expression"
            yield self._key(4, "use", _component(step), (*step.path, "use"), implied)
            yield from self._settings(step, 4)
            yield from self._common(step, 4)

    def _keyed(self, step: StepConfig, indent: int) -> Iterator[_Line]:
        pad = " " * indent
        settings = list(self._settings(step, indent + 2))
        empty = "" if settings else " {}"
        yield _Line(f"{pad}{_component(step)}:{empty}", self._documented(step))
        yield from settings
        yield from self._common(step, indent)

    def _documented(self, step: StepConfig) -> str:
        reads = sorted(params_of(step))
        named = (f"${name} in {scalar_text(self.config.experiments.values_of(name))}" for name in reads)
        return "; ".join(named)

    def _settings(self, step: StepConfig, indent: int) -> Iterator[_Line]:
        for index, setting in enumerate(settings_of(step.component)):
            path = self._where(step, setting.name, index)
            if setting.name in step.settings:
                implied = "default: the channel's name"
                yield self._key(indent, setting.name, step.settings[setting.name], path, implied)
            else:
                default = setting.default
                yield self._key(indent, setting.name, default, path, f"default of {_component(step)}")

    def _where(self, step: StepConfig, key: str, index: int) -> Path:
        """Where a setting stands: by name, inside the component's mapping, by position, or as the whole step."""
        inner = (*step.path, _component(step))
        candidates: list[Path] = [(*step.path, key)]
        if step.role in KEYED:
            candidates = [(*inner, key), (*inner, index), *([inner] if index == 0 else []), *candidates]
        elif index == 0 and key in step.settings and step.role == "filter":
            candidates.append(step.path)
        return next((path for path in candidates if path in self.config.positions), candidates[0])

    def _common(self, step: StepConfig, indent: int) -> Iterator[_Line]:
        if step.cap is not None:
            yield self._key(indent, "cap", Duration(step.cap), (*step.path, "cap"), "")
        else:
            yield _Line(f"{' ' * indent}# cap: what remains of the budget")
        policy = step.on_fail or POLICIES[step.role][0]
        yield self._key(indent, "on_fail", policy, (*step.path, "on_fail"), f"default of {step.role} steps")
        if step.when is not None:
            yield self._key(indent, "when", step.when, (*step.path, "when"), "")
        if step.role == "recall":
            yield self._key(indent, "at_least", step.at_least or 0, (*step.path, "at_least"), "default")
        if step.keep is not None:
            yield self._key(indent, "keep", step.keep, (*step.path, "keep"), "")

    def _key(self, indent: int, key: str, value: Any, path: Path, implied: str) -> _Line:
        mark = self.config.positions.get(path)
        return _Line(f"{' ' * indent}{key}: {scalar_text(value)}", str(mark) if mark else implied)


def _component(step: StepConfig) -> str:
    return str(vars(step.component)["__component__"])
