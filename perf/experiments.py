"""What experiments cost a request: assignment and exposures on one core, compiling, and the growthbook SDK beside it.

The scene has five layers with an experiment each, a holdout of 2% and a condition that holds, over Zipf traffic. Two
shapes: a fifth of the users in each experiment, as shipped (a request has about one exposure), and everybody in all
five, the most that five layers can cost; the bound is on both. Ours is measured with all that its writer thread does,
down to the file of JSON lines; growthbook's tracking callback only appends to a list, one instance serves all
requests, and its holdout is asked once for each.
Figures: `ab_requests_per_second` (a fifth), `ab_requests_per_second_all`, `ab_compile_1000`, `ab_over_growthbook`
(the worse of both shapes).
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from growthbook import GrowthBook

from abtest import SLOTS, Experiments, ExposureLog
from perf.data import NOW, traffic, user_id
from perf.timing import Figure, one_core, spend, table

LEAST_PER_SECOND = 100_000.0
MOST_COMPILE_SECONDS = 2.0
MOST_OVER_GROWTHBOOK = 1.0

SCENE = "home"
CONFIG = "9f2c01ab34de"
LAYERS = ("recall", "filters", "pre_rank", "rank", "re_rank")
HOLDOUT = 200
FIFTH = 2_000
CONTEXT: Mapping[str, object] = {"region": "g1", "hour": 9, "app_version": "3.2.0"}
_TYPES = {"region": "str", "hour": "int", "app_version": "semver"}
_WHEN = "context.app_version >= '3.0' and context.hour in [8, 9]"
_USERS = 100_000
_BLOCK = 250  # what the thread finds when it wakes, at 1,000 requests a second


@dataclass(frozen=True)
class Cost:
    """Microseconds of CPU per request: in the request, in the thread that writes, and of growthbook.

    Ours is of a core of its own: what one core takes. `ratio` is ours over growthbook's, the median over pairs of
    blocks in turn, where each finds the other's leavings in the processor's caches. `assign` is assignment without
    exposures, `exposures` how many of them a request had.
    """

    assign: float
    request: float
    write: float
    growthbook: float
    ratio: float
    exposures: float

    @property
    def all(self) -> float:
        """What a request costs us with everything, in microseconds of CPU."""
        return self.request + self.write

    @property
    def per_second(self) -> Figure:
        """Requests per second on a core."""
        return Figure.of(1e6 / self.all, LEAST_PER_SECOND, "1/s")


@dataclass(frozen=True)
class Measured:
    """The cost with a fifth of the users in each layer and with everybody, and what compiling took."""

    fifth: Cost
    everybody: Cost
    compile_seconds: float

    def figures(self) -> dict[str, Figure]:
        """The figures: the ratios of the first two are to be at least 1, those of the last two at most 1."""
        worse = max(self.fifth, self.everybody, key=lambda cost: cost.ratio)
        return {
            "ab_requests_per_second": self.fifth.per_second,
            "ab_requests_per_second_all": self.everybody.per_second,
            "ab_compile_1000": Figure.of(self.compile_seconds, MOST_COMPILE_SECONDS, "s"),
            "ab_over_growthbook": Figure(worse.all, "us", worse.growthbook, worse.ratio),
        }

    def text(self) -> str:
        """What people read of it."""
        shapes = (self.fifth, self.everybody)
        parts: dict[str, Callable[[Cost], float]] = {
            "assignment alone: 5 layers, holdout, condition": lambda cost: cost.assign,
            "assigned, exposures queued": lambda cost: cost.request,
            "exposures written, by the thread": lambda cost: cost.write,
            "with everything": lambda cost: cost.all,
            "growthbook on equal layers": lambda cost: cost.growthbook,
            "exposures a request": lambda cost: cost.exposures,
        }
        rows: list[list[str | float | None]] = [[name, *map(part, shapes)] for name, part in parts.items()]
        rates = " and ".join(f"{cost.per_second.value:,.0f}" for cost in shapes)
        said = (
            f"{rates} requests/s on a core (at least {LEAST_PER_SECOND:,.0f}); "
            f"1,000 experiments compile in {self.compile_seconds:.2f} s (at most {MOST_COMPILE_SECONDS})"
        )
        return f"{table(('experiments, us/request', 'a fifth in each', 'everybody in all'), rows)}\n{said}"


def measure_experiments(requests: int = 20_000, experiments: int = 1_000) -> Measured:
    """Measure `requests` of each shape, alone and in turn with growthbook, and compile `experiments`; medians."""
    users = [user_id(row) for row in traffic(_USERS, requests).tolist()]
    blocks = [users[at : at + _BLOCK] for at in range(0, len(users), _BLOCK)]
    with one_core():
        return Measured(_cost(FIFTH, blocks), _cost(SLOTS, blocks), _compile_seconds(many(experiments)))


def _cost(share: int, blocks: Sequence[Sequence[str]]) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Ours(Path(folder), share), Theirs(share)
        alone = [ours.spend(block) for block in (blocks[0], *blocks)][1:]
        assign, request, write = (median(part) for part in zip(*alone, strict=True))
        in_turn = [(ours.spend(block), theirs.spend(block)) for block in (blocks[0], *blocks)][1:]
        ours.log.close()
    if ours.log.dropped:
        raise RuntimeError(f"{ours.log.dropped} exposures were dropped")
    return Cost(
        assign,
        request,
        write,
        growthbook=median(their for _, their in in_turn),
        ratio=median((request + write) / their for (_, request, write), their in in_turn),
        exposures=ours.log.written / (2 * sum(map(len, (blocks[0], *blocks)))),
    )


class Ours:
    """Assignment and exposures as the service has them."""

    def __init__(self, folder: Path, share: int) -> None:
        self.experiments = _compiled(scene(share))
        self.log = ExposureLog(folder / "exposures.jsonl", _BLOCK, lambda: NOW, keep=1)
        self._read = frozenset(self.experiments.params)

    def spend(self, users: Sequence[str]) -> tuple[float, float, float]:
        """Microseconds a request: assigning alone, assigning and recording, writing."""
        assign, record, read = self.experiments.assign, self.log.record, self._read
        ids = [(user, f"r-{user}") for user in users]

        def alone() -> None:
            for user, request_id in ids:
                units = {"user_id": user, "device_id": None, "session_id": None, "request_id": request_id}
                assign(SCENE, units, CONTEXT, NOW)

        def request() -> None:
            for user, request_id in ids:
                units = {"user_id": user, "device_id": None, "session_id": None, "request_id": request_id}
                record(assign(SCENE, units, CONTEXT, NOW), read, request_id, SCENE, NOW, CONFIG)

        first, second, third = (spend(call, len(users)).cpu for call in (alone, request, self.log.flush))
        return first, second, third


class Theirs:
    """The growthbook SDK with the same layers."""

    def __init__(self, share: int) -> None:
        self.seen: list[tuple[object, object]] = []
        self.sdk = GrowthBook(features=features(share), on_experiment_viewed=self._viewed)

    def _viewed(self, experiment: object, result: object, user_context: object) -> None:
        self.seen.append((experiment, result))

    def spend(self, users: Sequence[str]) -> float:
        """Microseconds a request."""
        self.seen.clear()
        return spend(lambda: self.values(users), len(users)).cpu

    def values(self, users: Sequence[str]) -> list[list[object]]:
        """The five parameters of each user."""
        sdk = self.sdk
        found: list[list[object]] = []
        for user in users:
            sdk.set_attributes({"id": user, **CONTEXT})
            held = sdk.get_feature_value("holdout", False)
            found.append([0 if held else sdk.get_feature_value(layer, 0) for layer in LAYERS])
        return found


def scene(share: int) -> dict[str, Any]:
    """Five layers with an experiment each, over `share` of their slots, a holdout and a condition."""
    document = _document(dict.fromkeys(LAYERS, 1), share)
    document["scenes"][SCENE]["holdout"] = {"slots": HOLDOUT, "unit": "user_id"}
    document["scenes"][SCENE]["layers"]["rank"]["experiments"]["exp_rank_0@1"]["when"] = _WHEN
    return document


def many(experiments: int) -> dict[str, Any]:
    """Experiments in ten layers, each with a condition and a tester."""
    layers = min(10, experiments)
    document = _document({f"layer_{at}": experiments // layers for at in range(layers)})
    for layer in document["scenes"][SCENE]["layers"].values():
        for key, experiment in layer["experiments"].items():
            experiment |= {"when": _WHEN, "whitelist": {"treatment": [f"tester_of_{key}"]}}
    return document


def features(share: int) -> dict[str, Any]:
    """The layers of `scene(share)` as growthbook's features."""
    hashing = {"hashAttribute": "id", "hashVersion": 2}
    holdout = {"force": True, "coverage": HOLDOUT / SLOTS, "seed": f"{SCENE}/holdout/1", **hashing}
    found: dict[str, Any] = {"holdout": {"defaultValue": False, "rules": [holdout]}}
    for layer in LAYERS:
        rule = {
            "key": f"exp_{layer}",
            "seed": f"{SCENE}/{layer}/1",
            "variations": [0, 1],
            "weights": [0.5, 0.5],
            "coverage": share / SLOTS,
            **hashing,
        }
        if layer == "rank":
            rule["condition"] = {"app_version": {"$vgte": "3.0"}, "hour": {"$in": [8, 9]}}
        found[layer] = {"defaultValue": 0, "rules": [rule]}
    return found


def _document(layers: Mapping[str, int], share: int = SLOTS) -> dict[str, Any]:
    """Layers, `share` of each cut into as many experiments on its one parameter."""

    def experiments(layer: str, count: int) -> dict[str, Any]:
        def buckets() -> dict[str, Any]:
            return {
                "control": {"weight": 5000, "control": True, "set": {f"{layer}.knob": 0}},
                "treatment": {"weight": 5000, "set": {f"{layer}.knob": 1}},
            }

        ends = [share * at // count for at in range(count + 1)]
        common = {"owner": "perf", "status": "running"}
        return {
            f"exp_{layer}_{at}@1": {**common, "slots": [[ends[at], ends[at + 1]]], "buckets": buckets()}
            for at in range(count)
        }

    return {
        "version": 1,
        "params": {f"{layer}.knob": {"int": [0, 1], "default": 0, "layer": f"{SCENE}/{layer}"} for layer in layers},
        "scenes": {
            SCENE: {
                "layers": {
                    layer: {"unit": "user_id", "experiments": experiments(layer, count)}
                    for layer, count in layers.items()
                }
            }
        },
    }


def _compiled(document: Mapping[str, object]) -> Experiments:
    experiments, problems = Experiments.compile(document, _TYPES, [SCENE])
    if experiments is None:
        raise RuntimeError(f"the measured experiments don't compile: {problems[0]}")
    return experiments


def _compile_seconds(document: Mapping[str, object]) -> float:
    return median(spend(lambda: _compiled(document)).cpu for _ in range(3)) / 1e6
