"""One cut of time: learn from before it, run the funnel for users who came after it, label what the ranker saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bootstrap.artefacts import learn, write_artefacts
from bootstrap.dataset import Dataset
from bootstrap.funnel import Collected, Funnel, load_cut
from bootstrap.ranker import Window, sample_list
from bootstrap.recipe import Recipe, scenes
from features.manifest import ReleaseWriter

BATCH = 100
Tick = Callable[[str], None]


@dataclass(frozen=True)
class Cut:
    """What to do at one point in time: `window` seconds of labels after `cut`, files in `folder`."""

    name: str
    cut: float
    window: float
    folder: Path


def train_cut(data: Dataset, recipe: Recipe, cut: Cut, titles: np.ndarray | None, tick: Tick) -> dict[str, Window]:
    """For each scene, the sampled lists of users who took something in the window after the cut."""
    before = data.before(cut.cut)
    known = learn(before, recipe, tick)
    writer = write_artefacts(cut.folder, cut.name, before, known, titles)
    root = writer.finish().root
    dim = 0 if titles is None else titles.shape[1]
    loaded = load_cut(root, before, recipe, known.popularity, dim)
    users, taken = data.taken_in(cut.cut, cut.cut + cut.window)
    had = np.diff(before.bounds) > 0
    users, taken = users[had[users]], taken[had[users]]
    windows = {}
    for scene in scenes(recipe, data.found):
        tick(f"funnel {scene.name}")
        windows[scene.name] = _sampled(recipe, Funnel(before, recipe, scene, loaded), users, taken)
    return windows


def _sampled(recipe: Recipe, funnel: Funnel, users: np.ndarray, taken: np.ndarray) -> Window:
    rng = np.random.default_rng(recipe.seed)
    distinct = np.unique(users)
    chosen = np.sort(rng.choice(distinct, min(recipe.users_per_window, len(distinct)), replace=False))
    lists: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for start in range(0, len(chosen), BATCH):
        batch = chosen[start : start + BATCH]
        for user, seen in zip(batch, funnel.collect(batch.tolist()), strict=True):
            truth = taken[np.searchsorted(users, user) : np.searchsorted(users, user, side="right")]
            kept = _labelled(seen, truth, recipe.sampled, rng)
            if kept is not None:
                lists.append(kept)
    width = lists[0][0].shape[1] if lists else 0
    return Window(
        features=np.concatenate([x for x, _, _ in lists]) if lists else np.empty((0, width), np.float32),
        labels=np.concatenate([y for _, y, _ in lists]) if lists else np.empty(0, np.bool_),
        sizes=np.array([len(y) for _, y, _ in lists], np.int64),
        weights=np.concatenate([w for _, _, w in lists]) if lists else np.empty(0, np.float32),
    )


def _labelled(
    seen: Collected, truth: np.ndarray, sampled: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    labels = np.isin(seen.rows, truth)
    index, weights = sample_list(labels, sampled, rng)
    return (seen.features[index], labels[index], weights) if len(index) else None


def final_cut(
    data: Dataset, recipe: Recipe, releases: Path, version: str, titles: np.ndarray | None, tick: Tick
) -> tuple[ReleaseWriter, Mapping[str, object]]:
    """Learn from everything and write the release's artefacts; the rankers are added by the caller."""
    known = learn(data, recipe, tick)
    writer = write_artefacts(releases, version, data, known, titles)
    popularity = {name: "time" if name in ("first_seen", "last_seen") else "f32" for name in known.popularity}
    return writer, popularity
