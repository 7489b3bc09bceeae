"""Wrong files and their exact messages, out of data/wrong/*.txt.

Such a file names the configuration file that it edits; then come cases: `-` what is replaced, `+` by what,
and the lines that loading must report, no more and no fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.config.support import example, problems

WRONG = Path(__file__).parent / "data" / "wrong"
ESCAPES = {"\\n": "\n", "\\t": "\t", "\\a": "\a"}


def unescaped(text: str) -> str:
    for escape, character in ESCAPES.items():
        text = text.replace(escape, character)
    return text


def cases() -> Iterator[tuple[str, str, str, list[str]]]:
    for path in sorted(WRONG.glob("*.txt")):
        file, *blocks = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
        for block in blocks:
            old, new, *expected = block.split("\n")
            assert old[0] == "-"
            assert new[0] == "+"
            yield file, unescaped(old[1:]), unescaped(new[1:]), expected


@pytest.mark.parametrize(("file", "old", "new", "expected"), list(cases()))
def test_a_wrong_file_is_reported_with_line_and_fix(
    tmp_path: Path, file: str, old: str, new: str, expected: list[str]
) -> None:
    assert problems(example(tmp_path, (file, old, new))) == expected


def test_every_case_reports_something() -> None:
    assert all(expected for _, _, _, expected in cases())


def test_all_problems_of_all_files_are_reported_in_one_run(tmp_path: Path) -> None:
    folder = example(
        tmp_path,
        ("service.yaml", '"int"', '"integer"'),
        ("features.yaml", "policy: fifo", "policy: lifo"),
        ("models.yaml", "kind: ivf_sq8", "kind: hnsw"),
        ("abtest.yaml", "weight: 5000, set", "weight: 500, set"),
        ("scenes/home.yaml", "120ms", "120"),
        ("scenes/home.yaml", "return: [title", "return: [titel"),
    )
    (folder / "scenes" / "extra.yaml").write_text("version: 1\nscene: home\n")
    assert problems(folder) == [
        "abtest.yaml:14 scenes.home.layers.re_rank.experiments.exp_mmr@1.buckets: "
        "the weights of exp_mmr@1 sum to 5500. Expected 10000.",
        "features.yaml:3 user.profile.cache.policy: Got 'lifo'. Expected fifo.",
        "models.yaml:3 indexes.item_vectors.kind: Got 'hnsw'. Known: auto, flat, ivf_sq8.",
        "scenes/extra.yaml:1: The key 'budget' is missing. Expected a duration from 1ms to 1m.",
        "scenes/extra.yaml:1: The key 'recall' is missing. Expected a mapping.",
        "scenes/home.yaml:3 budget: Got 120. Expected a duration such as 120ms, 90s, 15m, 12h or 30d.",
        "scenes/home.yaml:16 return[0]: The item has no field 'titel'. Did you mean 'title'?",
        "service.yaml:5 context.hour: There is no context type 'integer'. Did you mean 'int'?",
    ]


def test_missing_files_are_named(tmp_path: Path) -> None:
    folder = example(tmp_path)
    (folder / "models.yaml").unlink()
    (folder / "scenes" / "home.yaml").rename(folder / "scenes" / "home.yml")
    assert problems(folder) == [
        "models.yaml: The file is missing. Expected one with at least version: 1.",
        "scenes: There is no scene. Expected at least one file such as scenes/home.yaml.",
        "scenes/home.yml: Not read: expected the ending .yaml. Rename it.",
    ]


def test_scenes_in_wrong_places_are_named(tmp_path: Path) -> None:
    folder = example(tmp_path)
    strays = ("Scenes/a.yaml", "scene/b.yaml", "scenes/deep/er/c.yml", "scenes/sub/d.yaml", "scenes/e.YAML", "f.Yml")
    for name in strays:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("scene: n\n")
    assert problems(folder) == [
        "Scenes/a.yaml: Not read: expected scenes in scenes/ itself. Move it there.",
        "f.Yml: Not read: it isn't a file of a configuration. "
        "Known: abtest.yaml, features.yaml, models.yaml, service.yaml.",
        "scene/b.yaml: Not read: expected scenes in scenes/ itself. Move it there.",
        "scenes/deep/er/c.yml: Not read: expected scenes in scenes/ itself. Move it there.",
        "scenes/e.YAML: Not read: expected the ending .yaml. Rename it.",
        "scenes/sub/d.yaml: Not read: expected scenes in scenes/ itself. Move it there.",
    ]


def test_hidden_files_what_editors_leave_and_other_folders_are_no_business_of_a_configuration(tmp_path: Path) -> None:
    folder = example(tmp_path)
    (folder / "scenes" / ".git").mkdir()
    (folder / "other").mkdir()
    (folder / "scenes" / "loop").symlink_to(folder / "scenes", target_is_directory=True)
    others = (".x.yaml", ".x.swp", "x.yaml~", "#x#", "#x.yaml#", "x.yaml.bak", ".git/x.yaml", "../other/x.yaml")
    for name in others:
        (folder / "scenes" / name).write_text("scene: n\n")
    assert problems(folder) == []


def test_a_missing_directory_is_one_problem(tmp_path: Path) -> None:
    (line,) = problems(tmp_path / "nowhere")
    assert line.endswith(
        "There is no such directory. Expected one with service.yaml, features.yaml, models.yaml, abtest.yaml, scenes/."
    )


def test_a_directory_in_a_files_place_is_a_problem(tmp_path: Path) -> None:
    folder = example(tmp_path)
    (folder / "models.yaml").unlink()
    (folder / "models.yaml").mkdir()
    assert problems(folder) == ["models.yaml: The file can't be read: Is a directory."]


def test_two_scenes_of_one_name_are_refused(tmp_path: Path) -> None:
    folder = example(tmp_path)
    text = (folder / "scenes" / "home.yaml").read_text()
    (folder / "scenes" / "other.yaml").write_text(text)
    assert problems(folder) == ["scenes/other.yaml:2 scene: The scene 'home' is also in scenes/home.yaml. Rename one."]


def test_an_alternative_scene_may_lack_a_channel_that_a_model_reads(tmp_path: Path) -> None:
    folder = example(tmp_path)
    lines = (folder / "scenes" / "home.yaml").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("  vector:", "  i2i:", "  - mmr:"))]
    (folder / "scenes" / "plain.yaml").write_text("\n".join(kept).replace("scene: home", "scene: plain"))
    assert problems(folder) == []


def test_the_password_of_a_url_is_in_no_message(tmp_path: Path) -> None:
    folder = example(tmp_path)
    (line,) = problems(folder, {"REDIS_URL": "http://user:hunter2@host"})
    assert "hunter2" not in line
