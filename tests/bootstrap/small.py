"""A small made-up log, and what bootstrap makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bootstrap.data import Inputs
from bootstrap.dataset import Dataset
from bootstrap.read import read_inputs
from bootstrap.recipe import Recipe

DAY = 86_400
START = 1_600_000_000
SMALL = Recipe(factors=8, als_iterations=2, windows=1, users_per_window=30, sampled=20)


def inputs(tmp_path: Path, rows: list[tuple[Any, ...]], **tables: dict[str, list[Any]]) -> Inputs:
    """Inputs of rows (user, item, ts[, event[, weight]]), and of `items` and `users` tables."""
    names = ("user_id", "item_id", "ts", "event", "weight")
    log = dict(zip(names, (list(column) for column in zip(*rows, strict=True)), strict=False))
    paths = {name: tmp_path / f"{name}.parquet" for name in ("log", *tables)}
    for name, table in {"log": log, **tables}.items():
        pq.write_table(pa.table(table), paths[name])
    return read_inputs(paths["log"], items=paths.get("items"), users=paths.get("users"))


def dataset(tmp_path: Path, rows: list[tuple[Any, ...]], **tables: dict[str, list[Any]]) -> Dataset:
    """The dataset of such inputs."""
    return Dataset.of(inputs(tmp_path, rows, **tables))


def shop_rows(*, users: int = 40, items: int = 60, events: int = 2000, days: int = 200) -> list[tuple[Any, ...]]:
    """A log with repeats: low item numbers sell more, and users come back for theirs."""
    rng = np.random.default_rng(5)
    user = rng.integers(0, users, events)
    item = np.where(rng.random(events) < 0.4, user % items, (items * rng.random(events) ** 2).astype(int))
    ts = START + np.sort(rng.integers(0, days * DAY, events))
    return [(f"u{u}", f"i{i}", int(t)) for u, i, t in zip(user, item, ts, strict=True)]


def shop_items(items: int = 60) -> dict[str, list[Any]]:
    """Titles, categories and prices of the items of `shop_rows`."""
    return {
        "item_id": [f"i{at}" for at in range(items)],
        "title": [f"good thing {at % 7} of kind {at % 3}" for at in range(items)],
        "category": [f"kind {at % 3}" for at in range(items)],
        "price": [1.0 + at for at in range(items)],
    }
