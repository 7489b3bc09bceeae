"""Every rule about abtest.yaml with its exact file, line, path and message, through the loader.

data/rules.txt has a case a block: `#` its name, `-` what of data/abtest.yaml is replaced, `+` by what, and the
lines that loading must report, no more and no fewer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.schema import json_schemas
from tests.config.json_schema import violations
from tests.config.support import ABTEST, HOME, components, example, load, problems

DATA = Path(__file__).parent / "data"
TEXT = (DATA / ABTEST).read_text(encoding="utf-8")


def rules() -> dict[str, tuple[str, str, list[str]]]:
    found = {}
    for block in (DATA / "rules.txt").read_text(encoding="utf-8").rstrip("\n").split("\n\n"):
        name, old, new, *expected = block.split("\n")
        assert (name[:2], old[0], new[0]) == ("# ", "-", "+")
        found[name[2:]] = old[1:], new[1:], expected
    return found


RULES = rules()


def folder(tmp_path: Path, text: str) -> Path:
    made = example(tmp_path, (HOME, "rank: {model: trees", "rank: {model: $rank.model"))
    (made / ABTEST).write_text(text, encoding="utf-8")
    return made


def test_the_file_without_faults_loads_and_fits_its_schema(tmp_path: Path) -> None:
    made = folder(tmp_path, TEXT)
    assert problems(made) == []
    schema = json_schemas(components())[ABTEST]
    assert list(violations(load(made).documents[ABTEST], schema, schema)) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_fault_is_reported_with_file_and_line(rule: str, tmp_path: Path) -> None:
    old, new, expected = RULES[rule]
    assert TEXT.count(old) == 1, TEXT.count(old)
    assert expected
    assert problems(folder(tmp_path, TEXT.replace(old, new))) == expected


def test_a_channel_that_does_not_exist_is_reported_where_the_scene_reads_it(tmp_path: Path) -> None:
    made = folder(tmp_path, TEXT)
    scene = made / HOME
    scene.write_text(scene.read_text().replace('"buy ** 0.7"', '"buy + channel.vectors.score"'))
    assert problems(made) == [
        "scenes/home.yaml:12 rank.score: Column 42: channel.vectors.score is not known here. Did you mean "
        "channel.vector.score?"
    ]
