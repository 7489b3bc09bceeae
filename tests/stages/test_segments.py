"""Cutting a scene into segments: each live view is fetched once, before its first use."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from stages.plan import Segment, Step, Variant, cut_segments
from tests.stages.fakes import FakeScorer

COLUMNS = [f"item.{name}" for name in "abcdef"]
DERIVED = ["item.x", "item.y", "cross.z"]


def step(at: int, needs: frozenset[str]) -> Step:
    return Step("rank", f"rank.{at}", {(): Variant(FakeScorer(lambda view, batch: None, tuple(sorted(needs))))})


needs = st.frozensets(st.sampled_from([*COLUMNS, *DERIVED, "user.u", "item.resident"]), max_size=4)
plans = st.lists(needs, max_size=7)
lives = st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(["v", "w", "u"]))
derived = st.dictionaries(
    st.sampled_from(DERIVED), st.frozensets(st.sampled_from([*COLUMNS, "user.history"]), min_size=1, max_size=3)
)


def stored(names: frozenset[str], live: Mapping[str, str], reads: Mapping[str, frozenset[str]]) -> set[str]:
    """The live columns behind some names."""
    return {n for name in names for n in (name, *reads.get(name, ())) if n in live}


def fetches(segments: tuple[Segment, ...]) -> list[tuple[int, str, tuple[str, ...]]]:
    return [(at, view, names) for at, segment in enumerate(segments) for view, names in segment.fetch.items()]


@given(plans, lives, derived, needs)
def test_the_laws_of_cutting(
    wanted: list[frozenset[str]], live: dict[str, str], reads: dict[str, frozenset[str]], returned: frozenset[str]
) -> None:
    steps = [step(at, names) for at, names in enumerate(wanted)]
    segments = cut_segments(steps, live, reads, returned)
    # every step once, in order
    assert [s for segment in segments for s in segment.steps] == steps
    fetched = fetches(segments)
    views = [view for _, view, _ in fetched]
    # no view is read twice, and each column of a view that anybody reads comes with it
    assert len(views) == len(set(views))
    every = set().union(*(stored(names, live, reads) for names in [*wanted, returned]))
    assert {(live[n], n) for n in every} == {(view, n) for _, view, names in fetched for n in names}
    # what a step reads is there before it
    have: set[str] = set()
    for segment in segments:
        have |= {n for names in segment.fetch.values() for n in names}
        for s in segment.steps:
            assert stored(s.needs, live, reads) <= have
    # nothing is fetched before its first use, and no cut is made without a fetch
    for at, segment in enumerate(segments):
        assert at == 0 or segment.fetch
        first = stored(segment.steps[0].needs, live, reads) if segment.steps else stored(returned, live, reads)
        assert set(segment.fetch) <= {live[n] for n in first}


def test_without_live_columns_all_steps_are_one_segment() -> None:
    steps = [step(at, frozenset(["item.a"])) for at in range(3)]
    assert cut_segments(steps, {}, {}) == (Segment(tuple(steps), {}),)
    assert cut_segments([], {}, {}) == ()


def test_what_is_only_returned_is_fetched_last() -> None:
    steps = [step(0, frozenset())]
    cut = cut_segments(steps, {"item.a": "v"}, {}, frozenset(["item.a"]))
    assert [(len(s.steps), dict(s.fetch)) for s in cut] == [(1, {}), (0, {"v": ("item.a",)})]


def test_a_derived_column_brings_the_stored_ones_behind_it() -> None:
    steps = [step(0, frozenset()), step(1, frozenset(["item.x"]))]
    cut = cut_segments(steps, {"item.a": "v", "item.b": "w"}, {"item.x": frozenset(["item.a", "item.b"])})
    assert [dict(s.fetch) for s in cut] == [{}, {"v": ("item.a",), "w": ("item.b",)}]
