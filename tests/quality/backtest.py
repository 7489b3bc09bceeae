"""A backtest through the front door: bootstrap up to a cut, serve with the clock there, ask for every test user.

Single channels are measured as scenes of their own over the same release: one channel, the scene's filters, no
ranker. So are the stages: the merged order, the pre-ranked one, the ranked one before re-ranking. For a table:

    python -m tests.quality.backtest retail 30 60 90
    python -m tests.quality.backtest journey 14 28 42
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from bootstrap.data import Interactions
from bootstrap.demo import read_demo
from bootstrap.protocol import K, Truth, estimate, measure, truth_after
from bootstrap.read import read_interactions
from tests.service import Place, serving

RETAIL = Path("../shared/data/online_retail.parquet")
DAY = 86_400.0
WINDOW = {"retail": 30.0, "journey": 14.0}


@dataclass(frozen=True)
class Result:
    """Per user (hit rate, recall, NDCG at 20) of a scene, its channels alone and its stages, f64[users, 3] each."""

    served: np.ndarray
    channels: Mapping[str, np.ndarray]
    stages: Mapping[str, np.ndarray]
    milliseconds: np.ndarray
    seconds_to_build: float

    def best_channel(self, metric: int) -> str:
        """The strongest single channel by a metric's mean."""
        return max(self.channels, key=lambda name: float(self.channels[name][:, metric].mean()))

    def lead(self, metric: int) -> Any:
        """Paired difference to the best channel, with its interval."""
        return estimate(self.served[:, metric] - self.channels[self.best_channel(metric)][:, metric])


def interactions(data: str) -> Interactions:
    """All interactions of a data set, the test window included."""
    return read_demo().interactions if data == "journey" else read_interactions(RETAIL, {})


def backtest(data: str, days: float, folder: Path, *, stages: bool = False, every: int = 1) -> dict[str, Result]:
    """Bootstrap as of `days` before the end, serve, ask for one user in `every`; results by scene.

    With its stages if asked for.
    """
    log = interactions(data)
    cut = float(np.floor(log.ts[-1])) - days * DAY
    configs, var = folder / "configs", folder / "var"
    source = ["--demo"] if data == "journey" else ["--interactions", str(RETAIL)]
    started = time.monotonic()
    command = [*_recserve(), "bootstrap", *source, "--as-of", str(cut), "--config", str(configs), "--var", str(var)]
    subprocess.run([*command, "--json"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    # What is judged here are the lists: a busy machine must not have the ladder shorten the funnel.
    with (configs / "service.yaml").open("a", encoding="utf-8") as file:
        file.write("workers: 1\nadmission: {wait: 1s}\n")
    scenes = ("home", "discover")
    channels = {scene: _alone(configs, scene) for scene in scenes}
    partial = {scene: _partial(configs, scene) if stages else {} for scene in scenes}
    with served(configs, var, now=str(cut)) as port:
        return {
            scene: _ask_all(port, log, cut, WINDOW[data], scene, channels[scene], partial[scene], seconds, every)
            for scene in scenes
        }


def _alone(configs: Path, scene: str) -> dict[str, str]:
    """Write a scene for each channel of `scene` alone; scene names by channel."""
    document = _scene(configs, scene)
    return {
        channel: _write(configs, document, f"{scene}_{channel}", (), recall={channel: settings})
        for channel, settings in document["recall"].items()
    }


def _partial(configs: Path, scene: str) -> dict[str, str]:
    """Write scenes that stop after the merge, the pre-ranker and the ranker; scene names by stage."""
    document = _scene(configs, scene)
    stops: dict[str, tuple[str, ...]] = {"merged": (), "preranked": ("pre_rank",), "ranked": ("pre_rank", "rank")}
    return {stage: _write(configs, document, f"{scene}_{stage}", keys) for stage, keys in stops.items()}


def _scene(configs: Path, scene: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((configs / "scenes" / f"{scene}.yaml").read_text())
    return document


def _write(configs: Path, document: dict[str, Any], name: str, steps: tuple[str, ...], **changed: Any) -> str:
    kept = ("version", "budget", "recall", "filters", "return", "fallback", *steps)
    made = {**{key: document[key] for key in kept}, "scene": name, **changed}
    (configs / "scenes" / f"{name}.yaml").write_text(yaml.safe_dump(made))
    return name


def _ask_all(
    port: int,
    log: Interactions,
    cut: float,
    window: float,
    scene: str,
    channels: Mapping[str, str],
    partial: Mapping[str, str],
    seconds: float,
    every: int,
) -> Result:
    everyone = truth_after(log.user, log.item, log.ts, cut, window, new_only=scene == "discover")
    truth = Truth(everyone.users[::every], everyone.items[::every])
    rows = {item: row for row, item in enumerate(log.item_ids)}
    taken: list[float] = []

    def lists(name: str) -> list[np.ndarray]:
        found = []
        for user in truth.users:
            asked = time.perf_counter()
            answer = ask(connection, {"scene": name, "user_id": log.user_ids[user], "size": K})
            taken.append((time.perf_counter() - asked) * 1e3)
            found.append(np.array([rows.get(item["id"], -1) for item in answer["items"]]))
        return found

    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        single = {channel: measure(lists(name), truth.items) for channel, name in channels.items()}
        stages = {stage: measure(lists(name), truth.items) for stage, name in partial.items()}
        taken.clear()
        return Result(measure(lists(scene), truth.items), single, stages, np.array(taken), seconds)


def ask(connection: http.client.HTTPConnection, body: Mapping[str, Any]) -> Any:
    """One `POST /recommend` that must succeed."""
    connection.request("POST", "/recommend", json.dumps(body), {"content-type": "application/json"})
    response = connection.getresponse()
    content = json.loads(response.read())
    assert response.status == 200, content
    assert content["level"] == 0, content["degraded"]
    return content


@contextlib.contextmanager
def served(configs: Path, var: Path, *, now: str | None = None) -> Iterator[int]:
    """A running service; its port."""
    with serving(Place(configs, var), *(() if now is None else ("--now", now))) as service:
        yield service.port


def _recserve() -> list[str]:
    return [str(Path(sys.executable).with_name("recserve"))]


def main(data: str, *days: str) -> None:
    """Print a table of figures for each cut."""
    for day in days:
        with tempfile.TemporaryDirectory(prefix="recserve-backtest-") as folder:
            for scene, result in backtest(data, float(day), Path(folder), stages=True).items():
                best = {metric: result.best_channel(metric) for metric in (0, 2)}
                print(
                    f"{data} {day}d {scene}: users {len(result.served)}, built in {result.seconds_to_build:.0f} s, "
                    f"p50 {np.percentile(result.milliseconds, 50):.1f} ms, "
                    f"p99 {np.percentile(result.milliseconds, 99):.1f} ms"
                )
                for name, values in {**result.channels, **result.stages, "served": result.served}.items():
                    hit, recall, ndcg = (str(estimate(values[:, metric])) for metric in range(3))
                    print(f"    {name:10} HR {hit}  Recall {recall}  NDCG {ndcg}")
                print(
                    f"    lead over {best[0]} in HR {result.lead(0)}, over {best[2]} in NDCG {result.lead(2)}",
                    flush=True,
                )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(*sys.argv[1:])
