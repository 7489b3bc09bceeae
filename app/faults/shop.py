"""A small made-up shop, for a kit that was given no release: it is the same on every machine."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from app.faults.place import Place

DAY = 86_400
NEWEST = 1_760_000_000
USERS, ITEMS, EVENTS, CATEGORIES = 500, 1_500, 20_000, 12
RECSERVE = (sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main())")


class NoShop(Exception):
    """The shop can't be built; str() has what bootstrap said."""


def build(folder: Path, *, users: int = USERS, items: int = ITEMS, events: int = EVENTS, seed: int = 11) -> Place:
    """Write the shop's files and bootstrap them. Raises NoShop."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    taste = rng.integers(0, CATEGORIES, users)
    charm = rng.pareto(1.2, items) + 0.05
    buyer = rng.integers(0, users, events) ** 2 // users
    bought = np.empty(events, np.int64)
    for category in range(CATEGORIES):
        mine = np.flatnonzero(taste[buyer] == category)
        liked = charm * np.where(np.arange(items) % CATEGORIES == category, 8.0, 0.3)
        bought[mine] = rng.choice(items, len(mine), p=liked / liked.sum())
    when = np.sort(NEWEST - rng.integers(0, 200 * DAY, events))
    prices = np.round(rng.uniform(1, 50, items), 2)
    log, goods = folder / "log.csv", folder / "items.csv"
    with log.open("w", newline="") as file:
        rows = zip(buyer.tolist(), bought.tolist(), when.tolist(), strict=True)
        csv.writer(file).writerows([("user_id", "item_id", "ts"), *((f"u{u}", f"i{i}", ts) for u, i, ts in rows)])
    with goods.open("w", newline="") as file:
        described = ((f"i{at}", f"Thing {at}", f"c{at % CATEGORIES}", prices[at]) for at in range(items))
        csv.writer(file).writerows([("item_id", "title", "category", "price"), *described])
    place = Place(folder / "configs", folder / "var")
    words = ["bootstrap", "--interactions", log, "--items", goods, "--config", place.configs, "--var", place.var]
    env = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    done = subprocess.run([*RECSERVE, *map(str, words)], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoShop(done.stderr.strip())
    return place
