"""Editing a YAML text changes the values that were meant, and no other character."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ab.edit import Edit, Range
from app.ab.places import EditError
from app.config.yaml_nodes import read

SLOTS = ("layers", "rank", "exp@1", "slots")
STATUS = (*SLOTS[:-1], "status")

FLOW = """# 实验 😀
layers: {rank: {exp@1: {status: draft, slots: [[0, 100], [200, 300]], owner: "é"}}}  # kept
"""
BLOCK = """layers:
  rank:
    # about the experiment
    exp@1:
      owner: ranking   # who
      status: "draft"  # since May
      slots:           # tenths
        - [0, 100]     # pilot
        # then
        - [200, 300]

      # the end
  other: {}
"""


def value(text: str) -> Any:
    document = read(text.encode(), "abtest.yaml", {})
    assert document.problems == []
    return document.value


def entry(text: str) -> dict[str, Any]:
    found: dict[str, Any] = value(text)["layers"]["rank"]["exp@1"]
    return found


def edited(text: str, status: str, kept: list[Range | None], added: list[Range]) -> str:
    edit = Edit(text)
    edit.set(STATUS, status)
    edit.set_ranges(SLOTS, kept, added)
    return edit.text()


def test_a_status_and_slots_change_in_place() -> None:
    assert edited(FLOW, "running", [(0, 150), (200, 300)], [(400, 500)]) == FLOW.replace("draft", "running").replace(
        "100], [200, 300]", "150], [200, 300], [400, 500]"
    )
    assert edited(BLOCK, "running", [(0, 150), (200, 300)], [(400, 500), (600, 700)]) == BLOCK.replace(
        '"draft"', "running"
    ).replace("100]     #", "150]     #").replace(
        "- [200, 300]\n", "- [200, 300]\n        - [400, 500]\n        - [600, 700]\n"
    )


def test_a_dropped_range_takes_its_own_comment_along_and_no_other() -> None:
    assert edited(FLOW, "draft", [None, (200, 300)], []) == FLOW.replace("[0, 100], ", "")
    assert edited(FLOW, "draft", [(0, 100), None], []) == FLOW.replace(", [200, 300]", "")
    after = edited(BLOCK, "draft", [None, (200, 300)], [])
    assert after == BLOCK.replace("        - [0, 100]     # pilot\n", "").replace('"draft"', "draft")


def test_an_empty_list_takes_ranges() -> None:
    empty = FLOW.replace("[[0, 100], [200, 300]]", "[]")
    assert entry(edited(empty, "running", [], [(5, 7), (9, 10)]))["slots"] == [[5, 7], [9, 10]]


@pytest.mark.parametrize("text", [FLOW, BLOCK, BLOCK.replace("\n", "\r\n"), "﻿" + BLOCK])
def test_a_key_is_added_beside_another(text: str) -> None:
    edit = Edit(text.removeprefix("﻿"))
    edit.add(STATUS, "ended_at", "2026-12-01T00:00:00+00:00")
    after = edit.text()
    assert entry(after) == {**entry(text), "ended_at": "2026-12-01T00:00:00+00:00"}
    assert list(entry(after)).index("ended_at") == list(entry(after)).index("status") + 1
    assert ("\r\n" in after) == (after.count("\r\n") == after.count("\n"))


def test_what_is_shared_or_spread_over_lines_is_refused() -> None:
    shared = "a: &s [[0, 1]]\nlayers: {rank: {exp@1: {status: draft, slots: *s}}}\n"
    with pytest.raises(EditError, match="shared with another place"):
        Edit(shared).set_ranges(SLOTS, [(0, 2)], [])
    with pytest.raises(EditError, match=r"layers\.rank is an alias"):
        Edit("a: &r {exp@1: {slots: []}}\nlayers: {rank: *r}\n").set_ranges(SLOTS, [], [(0, 1)])
    with pytest.raises(EditError, match="on several lines"):
        Edit(FLOW.replace("draft", "dr\n  aft")).set(STATUS, "running")
    with pytest.raises(EditError, match="a comment stands beside a range"):
        Edit(FLOW.replace(", [200", ",  # why\n  [200")).set_ranges(SLOTS, [(0, 100), None], [])


COMMENTS = st.sampled_from(["", "  # plain", "  # [0, 1]: {status: draft}", "  # 😀 'quoted\""])
BLANKS = st.sampled_from(["", "\n", "      # alone\n", "\n    # less deep\n\n"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """An experiment in flow or block style, with comments wherever YAML has room for them."""
    ranges = draw(st.lists(st.tuples(st.integers(0, 4000), st.integers(4001, 9999)), min_size=1, max_size=4))
    status = draw(st.sampled_from(["draft", "'draft'", '"draft"']))
    said = [draw(COMMENTS) for _ in range(len(ranges) + 4)]
    if draw(st.booleans()):
        gap = f",{said[1]}\n     " if said[1] else draw(st.sampled_from([",", ", ", ",\n     "]))
        slots = f"slots: [{gap.join(f'[{low}, {high}]' for low, high in ranges)}]"
        keys = draw(st.permutations(["owner: 'a: b'", f"status: {status}", slots]))
        body = f",{said[2]}\n    ".join(keys) if said[2] else ", ".join(keys)
        text = f"layers: {{rank: {{exp@1: {{{body}}}}}}}{said[0]}\n"
    else:
        indent = draw(st.sampled_from(["      ", "        "]))
        rows = "".join(
            f"{indent}- [{low}, {high}]{comment}\n{draw(BLANKS)}"
            for (low, high), comment in zip(ranges, said[4:], strict=True)
        )
        parts = [f"      owner: x{said[0]}\n", f"      status: {status}{said[1]}\n", f"      slots:{said[2]}\n{rows}"]
        body = draw(BLANKS).join(draw(st.permutations(parts)))
        text = f"layers:{said[3]}\n  rank:\n    exp@1:\n{body}{draw(BLANKS)}  other: {{}}\n"
        text = text.removesuffix("\n") if draw(st.booleans()) else text
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@settings(max_examples=150, deadline=None)
@given(documents(), st.data())
def test_only_the_edited_values_change(text: str, data: st.DataObject) -> None:
    before = entry(text)
    fates = st.sampled_from(["same", "grown", "dropped"])
    kept: list[Range | None] = []
    for low, high in before["slots"]:
        fate = data.draw(fates)
        kept.append(None if fate == "dropped" else (low, high + (fate == "grown")))
    added = data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(10, 99)), max_size=2))
    try:
        after = edited(text, "running", kept, added)
    except EditError:
        assert None in kept
        return
    wanted = [list(pair) for pair in [*kept, *added] if pair is not None]
    assert value(after) == _with(value(text), {**before, "status": "running", "slots": wanted})
    dropped = sum(pair is None for pair in kept)
    assert after.count("#") >= text.count("#") - dropped
    rest = iter(_lasting(after))
    assert dropped or all(character in rest for character in _lasting(text))


def _with(document: dict[str, Any], experiment: dict[str, Any]) -> dict[str, Any]:
    document["layers"]["rank"]["exp@1"] = experiment
    return document


def _lasting(text: str) -> list[str]:
    """All but the characters of slots and of the status, in whose places others may come."""
    return [character for character in text if character not in "0123456789'\"draft"]
