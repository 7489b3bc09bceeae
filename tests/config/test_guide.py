"""The guide to configuration is true: its example loads, and its tables are those of the code."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args, get_origin

import pytest

from app.config.bind import described, keys_of
from app.config.forms import COMMON
from app.config.model import Config
from app.config.resolved import render_resolved, scalar_text
from app.config.schema import json_schemas
from app.config.shapes import BehaviourShape, ModelsShape, SceneShape, ServiceShape, ViewShape
from app.config.steps import SECTION
from stages.guard import POLICIES
from stages.registry import core_of, settings_of
from tests.config.json_schema import violations
from tests.config.support import components, load

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "configuration.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL))
Row = tuple[str, ...]


def tables(heading: str) -> list[list[Row]]:
    """The rows of each table under a heading, without their headers and ticks."""
    section = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"(?:^\|.*\|\n)+", section, re.MULTILINE)
    assert found
    return [
        [tuple(cell.strip().replace("`", "") for cell in line.strip("|").split(" |")) for line in text.splitlines()[2:]]
        for text in found
    ]


def shape_rows(shape: type, prefix: str = "") -> Iterator[Row]:
    """Key, what it takes and default of everything in a shape; shapes inside it are spelled with dots."""
    for key in keys_of(shape):
        name, (core, _) = prefix + key.name, core_of(key.type)
        members = get_args(core) if get_origin(core) is not tuple else ()
        inside = [member for member in (core, *members) if dataclasses.is_dataclass(member)]
        mapping = isinstance(get_origin(core), type) and issubclass(get_origin(core), Mapping)
        if not inside or not (mapping or inside[0] is core):
            absent = key.default in (None, (), {}, "")
            default = "required" if key.required else "" if absent else scalar_text(key.default)
            yield name, described(key.type), default
        for member in inside:
            yield from shape_rows(member, f"{name}.NAME." if mapping else f"{name}.")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("guide")
    for name, text in BLOCKS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return load(folder, {"WEB_KEY": "0a1b2c3d4e5f6071"})


def test_the_example_loads(config: Config) -> None:
    assert set(config.service.clients) == {"web"}
    home = config.scenes["home"]
    assert home.ladder.small is not None
    assert (home.ladder.skip, home.ladder.small.settings["model"]) == (("recall.i2i",), "small_ranker")
    assert "model: small_ranker" in render_resolved(config, "home")


@pytest.mark.parametrize("file", sorted(BLOCKS))
def test_the_example_fits_the_schemas(config: Config, file: str) -> None:
    schema = json_schemas(components())["scenes/*.yaml" if file.startswith("scenes/") else file]
    assert list(violations(config.documents[file], schema, schema)) == []


@pytest.mark.parametrize(
    ("heading", "shapes"),
    [
        ("service.yaml", [ServiceShape]),
        ("features.yaml", [ViewShape, BehaviourShape]),
        ("models.yaml", [ModelsShape]),
        ("scenes/NAME.yaml", [SceneShape]),
    ],
)
def test_every_key_is_described_with_what_it_takes_and_its_default(heading: str, shapes: list[type]) -> None:
    assert [[row[:3] for row in table] for table in tables(heading)] == [list(shape_rows(shape)) for shape in shapes]


def test_the_example_uses_every_key_of_service_and_scene(config: Config) -> None:
    assert {key.name for key in keys_of(ServiceShape)} - set(config.documents["service.yaml"]) == {"extensions"}
    assert {key.name for key in keys_of(SceneShape)} == set(config.documents["scenes/home.yaml"])


def test_the_keys_and_policies_of_steps_are_those_of_their_roles() -> None:
    assert tables("Steps")[0] == [
        (SECTION.get(role, role), ", ".join(keys), ", ".join(POLICIES[role])) for role, keys in COMMON.items()
    ]


def test_every_component_is_described_with_its_settings() -> None:
    expected = [
        (
            SECTION.get(role, role),
            name,
            ", ".join(
                one.name if one.required or one.default in (None, ()) else f"{one.name} = {scalar_text(one.default)}"
                for one in settings_of(cls)
            ),
        )
        for role in COMMON
        for name, cls in sorted(components().of(role).items())
    ]
    assert [row[:3] for row in tables("Steps")[1]] == expected
