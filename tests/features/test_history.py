import numpy as np
import pytest

from features.history import History


def history() -> History:
    return History(
        rows=np.array([3, -1, 5, 3], np.int32),
        keys=np.array([30, 99, 50, 30], np.uint64),
        ts=np.array([1.0, 2.0, 3.0, 4.0]),
        event=np.array([1, 2, 1, 3], np.uint16),
        weight=np.ones(4, np.float32),
    )


def test_last_takes_the_newest_events() -> None:
    assert history().last(2).ts.tolist() == [3.0, 4.0]
    assert history().last(0).ts.tolist() == []
    assert len(history().last(100)) == 4


def test_known_drops_items_outside_the_release() -> None:
    assert history().known().keys.tolist() == [30, 50, 30]


def test_events_are_picked_by_code() -> None:
    assert history().of_events([1]).ts.tolist() == [1.0, 3.0]
    assert history().of_events([1, 3]).ts.tolist() == [1.0, 3.0, 4.0]
    assert len(history().of_events([])) == 0


def test_columns_are_read_only_and_of_one_length() -> None:
    with pytest.raises(ValueError, match="read-only"):
        history().rows[0] = 1
    with pytest.raises(ValueError, match="differ in length"):
        History(np.zeros(2, np.int32), *(getattr(history(), c) for c in ("keys", "ts", "event", "weight")))
