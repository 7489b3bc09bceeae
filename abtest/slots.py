"""Which experiment holds which slot of a layer."""

from collections.abc import Sequence

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


def check_overlaps(report: Report, experiments: Sequence[Experiment], path: Path) -> None:
    """Report each range that begins before an earlier one has ended; ended experiments hold no slots.

    `path` is that of the layer's experiments.
    """
    ranges = sorted(
        (low, high, experiment.key)
        for experiment in experiments
        if experiment.status != "ended"
        for low, high in experiment.slots
    )
    reach, holder = (0, 0), ""
    for low, high, key in ranges:
        if low < reach[1]:
            common = min(high, reach[1]) - low
            taken = f"[{reach[0]}, {reach[1]}) of {holder}"
            wrong = f"slots [{low}, {high}) of {key} overlap {taken} in {common} slots"
            report.add((*path, key, "slots"), wrong, f"Free in this layer: {shown(_free(ranges))}.")
        if high > reach[1]:
            reach, holder = (low, high), key


def shown(slots: Slots) -> str:
    """Return half-open ranges as people write them."""
    return ", ".join(f"[{low}, {high})" for low, high in slots) or "none"


def _free(ranges: Sequence[tuple[int, int, str]]) -> Slots:
    free: list[tuple[int, int]] = []
    reach = 0
    for low, high, _ in ranges:
        if low > reach:
            free.append((reach, low))
        reach = max(reach, high)
    if reach < SLOTS:
        free.append((reach, SLOTS))
    return tuple(free)
