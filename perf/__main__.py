"""`python -m perf`: floor, its parts, the service over the floor, and the service at 60% load.

Prints tables, writes ``var/perf.json``, and ends non-zero when a bound doesn't hold.
"""

import argparse
import sys
from pathlib import Path

from perf.data import Sizes, reference
from perf.experiments import MOST_OVER_GROWTHBOOK, measure_experiments
from perf.floor import MOST_OVER_PARTS, measure, open_floor
from perf.refusal import MOST_OVER_BARE, measure_refusals
from perf.release import fill_service, write_service
from perf.server import running
from perf.service import MOST_OVER_FLOOR, compare, load
from perf.timing import Figure, cores, write_figures

AT_MOST = {
    "floor_over_parts": MOST_OVER_PARTS,
    "recommend_cpu_over_floor": MOST_OVER_FLOOR,
    "refusal_over_bare_asgi": MOST_OVER_BARE,
    "ab_compile_1000": 1.0,
    "ab_over_growthbook": MOST_OVER_GROWTHBOOK,
}
AT_LEAST = {"ab_requests_per_second": 1.0, "ab_requests_per_second_all": 1.0}
"""Bounds of the ratios of figures."""


def main() -> int:
    """Measure, print, write; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m perf", description=__doc__)
    parser.add_argument("--items", type=int, default=Sizes.items)
    parser.add_argument("--users", type=int, default=Sizes.users)
    parser.add_argument("--requests", type=int, default=4_000, help="of floor and of service, for the ratio of both")
    parser.add_argument("--load-seconds", type=float, default=20.0)
    parser.add_argument("--var", type=Path, default=Path("var"))
    chosen = parser.parse_args()
    sizes = Sizes(items=chosen.items, users=chosen.users)
    say("reference data, index and store")
    with open_floor(chosen.var / "perf", sizes) as floor:
        data, folder = reference(chosen.var / "perf", sizes)
        say("the service's release, configuration and users")
        place = write_service(folder, data, floor.workload)
        url = f"unix://{floor.store.connection_pool.connection_kwargs['path']}"
        fill_service(url, place, data)
        say("floor")
        measured = measure(floor)
        print(f"\n{measured.table()}\n")
        say("service and floor in turn")
        with running(place, url, cores()[0]) as server:
            compared = compare(floor, server, chosen.requests)
            say("open-loop load")
            loaded = load(floor, server, compared.service.cpu, chosen.load_seconds)
    say("refusals")
    refused = measure_refusals()
    say("experiments")
    experiments = measure_experiments()
    print(f"\n{compared.table(measured)}\n\n{loaded.text()}\n\n{refused.text()}\n\n{experiments.text()}\n")
    figures = {
        "recommend_cpu_over_floor": Figure(
            compared.service.cpu, "us", compared.service.cpu / compared.ratio, compared.ratio
        ),
        **measured.figures(),
        **{f"step.{name}": Figure(cell.mean * 1e6) for name, cell in compared.metrics.steps.items()},
        **loaded.figures(),
        **refused.figures(),
        **experiments.figures(),
    }
    write_figures(chosen.var / "perf.json", figures)
    return verdict(figures)


def say(what: str) -> None:
    """Tell a person what is being done."""
    print(f"perf: {what}", file=sys.stderr, flush=True)


def verdict(figures: dict[str, Figure]) -> int:
    """Print each bound and whether it holds; the exit status."""
    broken = 0
    for name, most in AT_MOST.items():
        ratio = figures[name].ratio
        broken += _told(ratio is not None and ratio <= most, f"{name}: {ratio:.3f}, at most {most} allowed")
    for name, least in AT_LEAST.items():
        ratio = figures[name].ratio
        broken += _told(ratio is not None and ratio >= least, f"{name}: {ratio:.3f}, at least {least} expected")
    return 1 if broken else 0


def _told(holds: bool, words: str) -> bool:
    print(f"{words}{'' if holds else ': DOES NOT HOLD'}")
    return not holds


if __name__ == "__main__":
    sys.exit(main())
