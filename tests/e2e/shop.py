"""A made-up shop: people of a few tastes, ids and titles in any script, 240 days of clicks and purchases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DAY = 86_400
START = 1_720_000_000
TASTES = ("tea", "bread", "книги", "花", "🎈")
REGIONS = ("north", "south", "öst")


@dataclass(frozen=True)
class Shop:
    """Files that `recserve bootstrap` reads, and what is in them: (user, item) names by row of the log."""

    interactions: Path
    items: Path
    users: Path
    log: dict[str, list[Any]]
    item_ids: list[str]
    plain: str
    unsold: str
    regions: dict[str, str]

    def of(self, user: str, event: str = "purchase") -> set[str]:
        """What a user bought, or clicked."""
        rows = zip(self.log["user_id"], self.log["item_id"], self.log["event"], strict=True)
        return {item for who, item, what in rows if who == user and what == event}

    @property
    def user_ids(self) -> list[str]:
        """Everybody in the log."""
        return sorted(set(self.log["user_id"]))


def make_shop(folder: Path, *, users: int = 200, items: int = 400, events: int = 15_000, seed: int = 7) -> Shop:
    """Write the shop's three files. The item `plain` has no attributes, `unsold` attributes and no buyer."""
    rng = np.random.default_rng(seed)
    taste_of_user, taste_of_item = rng.integers(0, len(TASTES), users), np.arange(items) % len(TASTES)
    user_ids = [_user(at) for at in range(users)]
    item_ids = [f"{TASTES[taste_of_item[at]]}-{at}" for at in range(items)]
    charm = rng.pareto(1.2, items) + 0.05
    user = np.sort(rng.integers(0, users, events) ** 2 // users)
    item = np.empty(events, np.int64)
    for taste in range(len(TASTES)):
        mine = np.flatnonzero(taste_of_user[user] == taste)
        liked = charm * np.where(taste_of_item == taste, 8.0, 0.3)
        item[mine] = rng.choice(items, len(mine), p=liked / liked.sum())
    again = rng.random(events) < 0.3
    again[1:] &= user[1:] == user[:-1]
    again[0] = False
    for at in np.flatnonzero(again):
        item[at] = item[at - 1]
    ts = START + rng.integers(0, 240 * DAY, events)
    event = np.where(rng.random(events) < 0.2, "click", "purchase")
    order = np.argsort(ts, kind="stable")
    log = {
        "user_id": [user_ids[at] for at in user[order]],
        "item_id": [item_ids[at] for at in item[order]],
        "ts": ts[order].tolist(),
        "event": event[order].tolist(),
    }
    plain = max(set(log["item_id"]), key=log["item_id"].count)
    unsold = "never 'sold' \\ 💤"
    described = [name for name in item_ids if name != plain] + [unsold]
    table = {
        "item_id": described,
        "title": [f"{name.split('-')[0].title()} № {at} «nice»" for at, name in enumerate(described)],
        "category": [name.split("-")[0] if "-" in name else "other" for name in described],
        "price": [float(price) for price in np.round(rng.uniform(1, 50, len(described)), 2)],
    }
    regions = {name: REGIONS[at % len(REGIONS)] for at, name in enumerate(user_ids)}
    paths = [folder / name for name in ("log.parquet", "items.parquet", "users.parquet")]
    people = {"user_id": list(regions), "region": list(regions.values())}
    for path, columns in zip(paths, (log, table, people), strict=True):
        pq.write_table(pa.table(columns), path)
    return Shop(*paths, log, item_ids, plain, unsold, regions)


def write_log(path: Path, rows: list[tuple[Any, ...]]) -> Path:
    """A bare log (user, item, time) as Parquet."""
    user, item, ts = zip(*rows, strict=True)
    pq.write_table(pa.table({"user_id": list(user), "item_id": list(item), "ts": list(ts)}), path)
    return path


def _user(at: int) -> str:
    return f"用户💰{at}" if at % 7 == 0 else f"u {at}'" if at % 7 == 1 else f"user_{at}"
