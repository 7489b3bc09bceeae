"""Derived columns: over items alone they become resident at load, else they are worked out per request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stages.columns import Columns
from stages.derived import DerivedSpec, bind_derived, stored_reads
from stages.errors import ReleaseError
from stages.merge import merge
from tests.stages.fakes import batch_of, hits, texts, view_of
from tests.stages.test_components import NOW, history

RESIDENT: dict[str, Any] = {
    "item.a": np.array([1, 4, np.nan], np.float32),
    "item.b": np.array([2, 0, 2], np.float32),
    "item.v": np.array([[1, 0], [0, 1], [1, 1]], np.float32),
    "item.c": texts("x", "y", "x"),
}


def test_item_only_columns_are_worked_out_once_for_the_whole_catalogue() -> None:
    specs = [DerivedSpec("item.r", "ratio", ("item.a", "item.b")), DerivedSpec("item.log", "log1p", ("item.r",))]
    functions, columns = bind_derived(specs, RESIDENT)
    assert functions == {}
    np.testing.assert_array_equal(columns["item.r"], np.array([0.5, np.nan, np.nan], np.float32))
    np.testing.assert_allclose(columns["item.log"], np.log1p([0.5, np.nan, np.nan]), rtol=1e-6)  # type: ignore[arg-type]
    assert not any(column.flags.writeable for column in columns.values() if isinstance(column, np.ndarray))


def test_request_columns_are_functions_of_the_batch_and_the_user() -> None:
    specs = [
        DerivedSpec("cross.count", "history_count", ("user.history",)),
        DerivedSpec("cross.share", "history_share", ("user.history", "item.c")),
        DerivedSpec("cross.near", "history_similarity", ("user.history", "item.v", 1)),
        DerivedSpec("cross.match", "dot", ("user.v", "item.v")),
        DerivedSpec("cross.relative", "ratio", ("cross.count", "item.a")),
    ]
    functions, columns = bind_derived(specs, RESIDENT)
    assert columns == {}
    view = view_of(
        {"user.history": history((0, 3.0), (-1, 2.0), (0, 1.0)), "user.v": np.array([1, 2], np.float32)}, NOW
    )
    sources = Columns(view, RESIDENT, functions)
    batch = merge([hits(1, 0)], ["a"], sources, limit=9, at_least={})
    assert batch.rows.tolist() == [1, 0]
    assert batch["cross.count"].tolist() == [0, 2]
    assert batch["cross.share"].tolist() == [0, 1]
    assert batch["cross.near"].tolist() == [0, 1]
    assert batch["cross.match"].tolist() == [2, 1]
    assert batch["cross.relative"].tolist() == [0, 2]


def test_a_user_without_history_has_an_empty_one() -> None:
    functions, _ = bind_derived([DerivedSpec("cross.count", "history_count", ("user.history",))], RESIDENT)
    sources = Columns(view_of(), RESIDENT, functions)
    assert sources.column("cross.count", batch_of([0, 1])).tolist() == [0, 0]


def test_a_history_is_digested_once_per_request() -> None:
    sources = Columns(view_of({"user.history": history((0, 1.0))}, NOW), RESIDENT, {})
    assert sources.digest("user.history") is sources.digest("user.history")


def test_a_transform_over_a_column_that_is_not_resident_is_refused() -> None:
    with pytest.raises(ReleaseError, match=r"cross\.x: history_share needs item\.gone in memory"):
        bind_derived([DerivedSpec("cross.x", "history_share", ("user.history", "item.gone"))], RESIDENT)


def test_the_stored_columns_behind_a_derived_one_are_found_through_others() -> None:
    specs = [
        DerivedSpec("item.r", "ratio", ("item.a", "item.log")),
        DerivedSpec("item.log", "log1p", ("item.b",)),
        DerivedSpec("cross.n", "history_frequency", ("user.history", 30.0)),
    ]
    assert stored_reads(specs) == {
        "item.r": {"item.a", "item.b"},
        "item.log": {"item.b"},
        "cross.n": {"user.history"},
    }


def test_an_undeclared_item_column_is_a_bug_and_a_missing_user_column_is_missing() -> None:
    sources = Columns(view_of(), RESIDENT, {})
    with pytest.raises(KeyError, match=r"item\.nope"):
        sources.column("item.nope", batch_of([0]))
    assert sources.column("user.nope", batch_of([0])) is None
    assert sources.column("context.nope", batch_of([0])) is None
    assert np.isnan(sources.column("channel.nope.score", batch_of([0]))).all()
