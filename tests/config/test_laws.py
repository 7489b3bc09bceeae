"""Whatever stands in the files, loading answers a Config or a ConfigError, and nothing else."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.support import ABTEST, EXAMPLE, FEATURES, HOME, MODELS, SERVICE, example, load, problems

FILES = (SERVICE, FEATURES, MODELS, ABTEST, HOME)
LINES = [line for file in FILES for line in (EXAMPLE / file).read_text().splitlines()]
WORDS = sorted({word for line in LINES for word in re.findall(r"[\w.$@]+|[^\w\s]", line)})
PROBLEM = re.compile(r"\S+(:\d+)?( .+)?: .+", re.DOTALL)

line_edits = st.tuples(
    st.sampled_from(["delete", "duplicate", "replace", "indent", "words"]),
    st.integers(0, 40),
    st.one_of(st.sampled_from(LINES), st.text(max_size=30)),
    st.sampled_from(WORDS),
    st.one_of(st.sampled_from(WORDS), st.sampled_from(["null", "[]", "{}", "-1", "$x", "${X}", "&a", "*a", "''"])),
)


def edited(text: str, edit: tuple[str, int, str, str, str]) -> str:
    kind, place, line, old, new = edit
    lines = text.split("\n")
    at = place % len(lines)
    if kind == "delete":
        del lines[at]
    elif kind == "duplicate":
        lines.insert(at, lines[at])
    elif kind == "replace":
        lines[at] = line
    elif kind == "indent":
        lines[at] = " " + lines[at]
    else:
        return text.replace(old, new, 1 + place % 2)
    return "\n".join(lines)


def holds(file: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = example(Path(folder))
        (target / file).write_bytes(data)
        for line in problems(target):
            assert PROBLEM.match(line), line


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(FILES), st.lists(line_edits, min_size=1, max_size=4))
def test_an_edited_file_loads_or_is_refused(file: str, edits: list[tuple[str, int, str, str, str]]) -> None:
    text = (EXAMPLE / file).read_text()
    for edit in edits:
        text = edited(text, edit)
    holds(file, text.encode("utf-8", "surrogatepass"))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FILES), st.integers(0, 1500), st.binary(max_size=12), st.integers(0, 200))
def test_arbitrary_bytes_in_a_file_load_or_are_refused(file: str, at: int, inserted: bytes, cut: int) -> None:
    data = (EXAMPLE / file).read_bytes()
    holds(file, data[:at] + inserted + data[at + cut :])


def test_loading_twice_gives_equal_configurations() -> None:
    first, second = load(EXAMPLE), load(EXAMPLE)
    assert first.scenes == second.scenes
    assert (first.id, first.features, first.models) == (second.id, second.features, second.models)
