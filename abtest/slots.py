"""Which experiment holds which slot, and which slots are free."""

from collections.abc import Iterable, Sequence

from abtest.hashing import SLOTS
from abtest.plan import Experiment, Slots
from abtest.problems import Path, Report


def slot_table(experiments: Sequence[Experiment]) -> tuple[Experiment | None, ...]:
    """Return the 10,000 holders; an ended experiment gives way to any other."""
    table: list[Experiment | None] = [None] * SLOTS
    for experiment in sorted(experiments, key=lambda each: each.status != "ended"):
        for low, high in experiment.slots:
            table[low:high] = [experiment] * (high - low)
    return tuple(table)


def check_overlaps(report: Report, experiments: Iterable[Experiment], where: str) -> None:
    """Report overlaps of experiments that share their slots; the ended hold none. `where` is said of free slots."""
    holders = [(each.slots, each.key, each.place) for each in experiments if each.status != "ended"]
    check_disjoint(report, holders, where)


def check_disjoint(report: Report, holders: Iterable[tuple[Slots, str, Path]], where: str) -> None:
    """Report each range that begins before an earlier one has ended; a holder is slots, name and path."""
    ranges = sorted((low, high, name, path) for slots, name, path in holders for low, high in slots)
    reach, holder = (0, 0), ""
    for low, high, name, path in ranges:
        if low < reach[1]:
            common = min(high, reach[1]) - low
            taken = f"[{reach[0]}, {reach[1]}) of {holder}"
            wrong = f"slots [{low}, {high}) of {name} overlap {taken} in {common} slots"
            free = shown(outside((low, high) for low, high, _, _ in ranges))
            report.add((*path, "slots"), wrong, f"Free in {where}: {free}.")
        if high > reach[1]:
            reach, holder = (low, high), name


def shown(slots: Iterable[tuple[int, int]]) -> str:
    """Return half-open ranges as people write them."""
    return ", ".join(f"[{low}, {high})" for low, high in slots) or "none"


def outside(ranges: Iterable[tuple[int, int]]) -> Slots:
    """Return the slots that are in none of `ranges`, which may overlap."""
    free: list[tuple[int, int]] = []
    reach = 0
    for low, high in sorted(ranges):
        if low > reach:
            free.append((reach, low))
        reach = max(reach, high)
    if reach < SLOTS:
        free.append((reach, SLOTS))
    return tuple(free)


def common(one: Iterable[tuple[int, int]], two: Iterable[tuple[int, int]]) -> Slots:
    """Return the slots that are in both."""
    return outside((*outside(one), *outside(two)))


def without(one: Iterable[tuple[int, int]], two: Iterable[tuple[int, int]]) -> Slots:
    """Return the slots of `one` that aren't in `two`."""
    return outside((*outside(one), *two))


def size(slots: Iterable[tuple[int, int]]) -> int:
    """Return how many slots disjoint ranges have."""
    return sum(high - low for low, high in slots)
