"""The verbs `check` and `schema`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from app.cli import check, schema
from tests.config.support import EXAMPLE, example


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without `var`: what `make serve` has left in this one's is none of these tests' business."""
    folder = tmp_path / "nowhere"
    folder.mkdir()
    monkeypatch.chdir(folder)


def call(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers(required=True)
    for verb in (check, schema):
        verb.add(subparsers)
    args = parser.parse_args(arguments)
    status = args.run(args)
    assert isinstance(status, int)
    return status


def test_a_good_configuration_exits_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "--config", str(EXAMPLE)) == 0
    assert "is good, no release is active yet. Scenes: home (9 steps)." in capsys.readouterr().out


def test_problems_go_to_stderr_and_the_status_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = example(tmp_path, ("scenes/home.yaml", "120ms", "120"), ("models.yaml", "kind: ivf_sq8", "kind: hnsw"))
    assert call("check", "--config", str(folder)) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.removeprefix(f"{folder}/") for line in captured.err.splitlines()] == [
        "models.yaml:3 indexes.item_vectors.kind: Got 'hnsw'. Known: auto, flat, ivf_sq8.",
        "scenes/home.yaml:3 budget: Got 120. Expected a duration such as 120ms, 90s, 15m, 12h or 30d.",
        "2 problems.",
    ]


def test_problems_as_json_have_file_line_path_and_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = example(tmp_path, ("scenes/home.yaml", "120ms", "120"))
    assert call("check", "--config", str(folder), "--json") == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["line"], problem["path"]) == (3, "budget")
    assert problem["file"] == str(folder / "scenes" / "home.yaml")


def test_resolved_prints_a_scene(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "--config", str(EXAMPLE), "--resolved", "home") == 0
    assert "limit: 1000" in capsys.readouterr().out
    assert call("check", "--config", str(EXAMPLE), "--resolved", "hom") == 1
    assert capsys.readouterr().err == "There is no scene 'hom'. Did you mean 'home'?\n"


def test_a_good_configuration_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "--config", str(EXAMPLE), "--json", "--resolved", "home") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["good"] is True
    assert summary["scenes"]["home"][0] == "recall.vector"
    assert summary["resolved"].startswith("# configuration")


def test_schemas_are_written_one_for_each_kind_of_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("schema", "--config", str(EXAMPLE), "--out", str(tmp_path / "schemas")) == 0
    names = sorted(path.name for path in (tmp_path / "schemas").iterdir())
    assert names == [f"{name}.schema.json" for name in ("abtest", "features", "models", "scene", "service")]
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_schemas_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("schema", "--config", str(EXAMPLE), "--json") == 0
    assert "scenes/*.yaml" in json.loads(capsys.readouterr().out)


def test_schemas_need_only_a_readable_service_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = example(tmp_path, ("service.yaml", "extensions: []", "extensions: [nobody_has_this]"))
    assert call("schema", "--config", str(folder), "--json") == 1
    assert "nobody_has_this" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["check", "schema"])
def test_help_has_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        call(verb, "--help")
    assert f"recserve {verb}" in capsys.readouterr().out
