"""Experiment parameters as the scenes see them: type, owning scene, and every value that is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from abtest.params import read_params
from abtest.problems import Report
from stages.types import Scalar


@dataclass(frozen=True, slots=True)
class DeclaredParam:
    """A parameter: `values` has the default first, then every value that a launch or a bucket sets."""

    name: str
    type: str
    scene: str
    values: tuple[Scalar, ...]


def declared_params(document: Any) -> dict[str, DeclaredParam | None]:
    """Every declared name of a plain abtest.yaml; None for a declaration with a problem.

    Lenient, because `Experiments.compile` reports the problems: it only has to keep the scenes checkable.
    """
    if not isinstance(document, dict):
        return {}
    found: dict[str, DeclaredParam | None] = {}
    declarations = read_params(Report(), document.get("params", {}), (), tuple(_layers(document)))
    for name, param in declarations.items():
        if param is None:
            found[name] = None
            continue
        named = (param.admit(buckets[name]) for buckets in _settings(document) if name in buckets)
        values = dict.fromkeys([param.default, *(value for value in named if value is not None)])
        found[name] = DeclaredParam(name, param.type, param.scene, tuple(values))
    return found


def _children(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    inner = value.get(key) if isinstance(value, dict) else None
    if isinstance(inner, dict):
        yield from inner.items()


def _layers(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for scene, entry in _children(document, "scenes"):
        for layer, _ in _children(entry, "layers"):
            yield scene, layer


def _settings(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for _, scene in _children(document, "scenes"):
        for _, layer in _children(scene, "layers"):
            setters = [launch for _, launch in _children(layer, "launches")]
            for _, experiment in _children(layer, "experiments"):
                setters += [bucket for _, bucket in _children(experiment, "buckets")]
            for setter in setters:
                if isinstance(setter, dict) and isinstance(setter.get("set"), dict):
                    yield setter["set"]
