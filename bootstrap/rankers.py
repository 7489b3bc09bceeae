"""The scenes' rankers, trained side by side, exported and compared with what was trained."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bootstrap.cores import cores
from bootstrap.ranker import RankerSettings, Trained, Window, export, largest_error, train
from bootstrap.recipe import Found, Recipe, Scene, features, scenes
from features.manifest import ReleaseWriter
from stages.runtime.models import open_session

HEAD = "buy"
ALLOWED_ERROR = 1e-5
GOLDEN_ROWS = 64


@dataclass(frozen=True)
class Ranked:
    """A ranker on disk: its features in order, how it did, and outputs of golden inputs."""

    names: tuple[str, ...]
    report: Mapping[str, Any]
    golden: tuple[np.ndarray, np.ndarray]


def rank_all(
    windows: Sequence[Mapping[str, Window]], found: Found, recipe: Recipe, root: Path, tick: Callable[[str], None]
) -> dict[str, Ranked]:
    """Train each scene's ranker in a process of its own, with one thread: LightGBM's threads wait for each other.

    A scene without a positive label anywhere has no ranker: it keeps the pre-ranker's order.
    """
    ranked: dict[str, Ranked] = {}
    with ProcessPoolExecutor(cores(), mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = {
            scene.name: pool.submit(
                _rank, [w[scene.name] for w in windows], features(scene, found), scene, recipe, root
            )
            for scene in scenes(recipe, found)
        }
        for name, job in jobs.items():
            made = job.result()
            if made is not None:
                ranked[name] = made
            tick(f"ranker {name}")
    return ranked


def register(writer: ReleaseWriter, scene: Scene, ranked: Ranked) -> None:
    """Put a scene's ranker into the manifest."""
    writer.file("models", scene.model, f"{scene.model}.onnx", features=list(ranked.names), heads=[HEAD])
    inputs, outputs = ranked.golden
    writer.golden(scene.model, {"features": inputs}, {HEAD: outputs})


def _rank(windows: Sequence[Window], names: tuple[str, ...], scene: Scene, recipe: Recipe, root: Path) -> Ranked | None:
    useful = [window for window in windows if len(window.labels)]
    if not any(window.labels.any() for window in useful):
        return None
    blocks = [[f"channel.{step.name}.score", f"channel.{step.name}.rank"] for step in scene.recall]
    everything = [name for block in blocks for name in block]  # requests with given candidates have no channels
    settings = RankerSettings(seed=recipe.seed, threads=1, per_group=recipe.sampled)
    trained = train(useful, names, settings, blocks=[*blocks, everything])
    golden = _export(trained, root / f"{scene.model}.onnx", useful[-1])
    return Ranked(names, dict(trained.report), golden)


def _export(trained: Trained, path: Path, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """Write the graph, compare it with LightGBM, and return golden inputs with their outputs."""
    export(trained, path, HEAD)
    session = open_session(path)

    def predict(x: np.ndarray) -> np.ndarray:
        return np.ravel(session.run([HEAD], {"features": x})[0])

    error = largest_error(trained, window.features, predict)
    if error > ALLOWED_ERROR:
        raise RuntimeError(
            f"The exported ranker differs from LightGBM by {error:.2e}. Expected at most {ALLOWED_ERROR}."
        )
    golden = window.features[:GOLDEN_ROWS]
    return golden, predict(golden)
