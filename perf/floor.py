"""The floor's cost, whole and part by part, and ``python -m perf.floor``'s table of both.

Whole: requests run back to back, timed as one span. In rotation: as many requests are in flight as there are
parts, each one part further than the next; a turn runs every part once, each on another request, and times
it alone. Between two runs of one part all others have run, as in the whole, so its code and tables are as
cold; and its inputs are real outputs of the part before. What the whole costs above the sum of its parts
is glue. A tight loop on one request is printed beside them, to show how little such a figure means.
"""

import argparse
import contextlib
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np
import redis

from perf.data import I32, Data, Sizes, reference, traffic
from perf.index import open_index
from perf.model import build_ranker, open_ranker
from perf.parts import PARTS, Floor, Work, Workload
from perf.store import fill, private_valkey
from perf.timing import Figure, Spent, cores, one_core, spend, table

MOST_OVER_PARTS = 1.2


@dataclass(frozen=True)
class Measured:
    """The floor in microseconds per request: medians over blocks of each block's means."""

    requests: int
    whole: Spent
    parts: dict[str, float]
    tight: dict[str, float]
    over_parts: float

    @property
    def parts_sum(self) -> float:
        """CPU of all parts timed in rotation."""
        return sum(self.parts.values())

    def figures(self) -> dict[str, Figure]:
        """The figures to publish: the floor, its ratio to its parts, and each part."""
        named = {f"floor.{name}": Figure(value) for name, value in self.parts.items()}
        over = Figure(self.whole.cpu, "us", self.whole.cpu / self.over_parts, self.over_parts)
        return {"floor_cpu": Figure(self.whole.cpu), "floor_over_parts": over, **named}

    def table(self) -> str:
        """The parts in order, their share and their cost in a tight loop, then sum and whole."""
        rows: list[tuple[str, float, float, float | None]] = [
            (name, cost, 100 * cost / self.parts_sum, self.tight[name]) for name, cost in self.parts.items()
        ]
        rows.append(("sum of parts", self.parts_sum, 100.0, sum(self.tight.values())))
        rows.append(("whole", self.whole.cpu, 100 * self.over_parts, None))
        return table(("step", "cpu us", "% of parts", "tight loop us"), rows)


@contextlib.contextmanager
def open_floor(cache: Path, sizes: Sizes | None = None, workload: Workload | None = None) -> Iterator[Floor]:
    """Everything that the floor needs, made where absent: data, index, model, and a filled private Valkey.

    The server runs on the cores that ``perf.timing.cores`` leaves.
    """
    data, folder = reference(cache, sizes)
    data.touch()
    index = open_index(folder, data.vectors)
    ranker = open_ranker(build_ranker(*_widths(data)))
    with private_valkey(cores()[1]) as path:
        fill(path, data)
        with redis.Redis(unix_socket_path=path) as store:
            yield Floor(data, index, ranker, store, workload)


def _widths(data: Data) -> tuple[int, int]:
    return data.user_vectors.shape[1] + data.user_profiles.shape[1], data.dense.shape[1]


def measure(floor: Floor, requests: int = 1_000, blocks: int = 8, seed: int = 0) -> Measured:
    """Time the floor on one core over Zipf traffic, whole and rotation alternating block by block.

    Blocks of both see the same amount of different requests, and take turns at going first, so that drift
    and other people's load fall on both alike.
    """
    size = max(requests // blocks, len(PARTS))
    users = traffic(len(floor.data.user_vectors), (2 * blocks + 1) * size, seed).reshape(-1, size)
    wholes: list[Spent] = []
    turns: list[dict[str, float]] = []
    with one_core():
        whole(floor, users[-1])
        for block in range(blocks):
            for rotated in (block % 2 == 0, block % 2 == 1):
                if rotated:
                    turns.append(rotate(floor, users[2 * block]))
                else:
                    wholes.append(whole(floor, users[2 * block + 1]))
        tight = tight_loop(floor, int(users[-1, 0]))
    return Measured(
        requests=blocks * size,
        whole=Spent(median(w.cpu for w in wholes), median(w.wall for w in wholes)),
        parts={name: median(turn[name] for turn in turns) for name in PARTS},
        tight=tight,
        over_parts=median(w.cpu / sum(t.values()) for w, t in zip(wholes, turns, strict=True)),
    )


def whole(floor: Floor, users: I32) -> Spent:
    """Cost per request of running the floor for each user, one after the other."""
    rows: list[int] = users.tolist()

    def run() -> None:
        for user in rows:
            floor.run(user)

    return spend(run, len(rows))


def rotate(floor: Floor, users: I32) -> dict[str, float]:
    """CPU microseconds of each part, in rotation over the users' requests (see the module's text).

    Needs at least as many users as parts; the first turns, in which not every part has a request, only warm.
    """
    calls = [getattr(floor, name) for name in PARTS]
    spent: list[list[int]] = [[] for _ in PARTS]
    flight: deque[Work] = deque(maxlen=len(PARTS))
    clock = time.process_time_ns
    for user in users.tolist():
        flight.appendleft(Work(user))
        full = len(flight) == len(PARTS)
        for place, work in enumerate(flight):
            began = clock()
            calls[place](work)
            ended = clock()
            if full:
                spent[place].append(ended - began)
    reading = _clock_cost()
    return {name: (mean(times) - reading) / 1e3 for name, times in zip(PARTS, spent, strict=True)}


def _clock_cost() -> float:
    """Nanoseconds between two readings of the CPU clock, which every timed part contains once."""
    readings: Sequence[int] = [time.process_time_ns() for _ in range(1_000)]
    return float(np.median(np.diff(readings)))


def tight_loop(floor: Floor, user: int, repeats: int = 200) -> dict[str, float]:
    """CPU microseconds of each part run again and again on one request, with everything in cache."""
    work = Work(user)
    costs = {}
    for name in PARTS:
        part = getattr(floor, name)
        costs[name] = spend(lambda part=part: [part(work) for _ in range(repeats)], repeats).cpu  # type: ignore[misc] # a default binds the loop's part
    return costs


def main() -> None:
    """Measure the floor on reference data of a chosen size and print the table."""
    parser = argparse.ArgumentParser(prog="python -m perf.floor", description=main.__doc__)
    parser.add_argument("--items", type=int, default=Sizes.items)
    parser.add_argument("--users", type=int, default=Sizes.users)
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--cache", type=Path, default=Path("var/perf"))
    chosen = parser.parse_args()
    with open_floor(chosen.cache, Sizes(items=chosen.items, users=chosen.users)) as floor:
        measured = measure(floor, chosen.requests)
    print(measured.table())
    print(
        f"\n{measured.requests} requests each way; wall {measured.whole.wall:,.0f} us per request; "
        f"whole / parts {measured.over_parts:.3f}, at most {MOST_OVER_PARTS} allowed"
    )


if __name__ == "__main__":
    main()
