"""From input to a complete release: cuts of time side by side on the cores, then a ranker for each scene."""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bootstrap.cores import cores
from bootstrap.data import Inputs
from bootstrap.dataset import Dataset
from bootstrap.errors import BootstrapError
from bootstrap.ranker import Window
from bootstrap.rankers import rank_all, register
from bootstrap.recipe import Found, Recipe, Scene, scenes
from bootstrap.title_vectors import title_vectors
from bootstrap.training import Cut, final_cut, train_cut
from expression import Strings
from features.manifest import Manifest, active

DAY = 86_400.0
LONGEST_WINDOW, SHORTEST_WINDOW = 30.0, 1.0
STEPS_OF_A_CUT = ("vectors", "neighbours", "popularity", "index")
EXAMPLES = 5

Tick = Callable[[str], None]


@dataclass(frozen=True)
class Built:
    """A release on disk, and what its configuration is written from."""

    manifest: Manifest
    data: Dataset
    recipe: Recipe
    scenes: tuple[Scene, ...]
    ranked: Mapping[str, tuple[str, ...]]
    popularity: Mapping[str, Any]
    title_dim: int

    @property
    def found(self) -> Found:
        """The input's optional columns."""
        return self.data.found


def steps_of(recipe: Recipe) -> int:
    """How many ticks `build_release` makes: for a progress bar."""
    cuts = recipe.windows * (len(STEPS_OF_A_CUT) + 2) + len(STEPS_OF_A_CUT)
    return cuts + 1 + 2 + 1


def build_release(
    inputs: Inputs, releases: Path, version: str, recipe: Recipe, *, as_of: float | None, tick: Tick
) -> Built:
    """Build a release, complete but not activated; a broken build leaves no folder."""
    if (releases / version).exists():
        raise BootstrapError(f"{releases / version}: there is a release of this name. Expected a new one; try again.")
    data = Dataset.of(inputs, as_of=as_of)
    titles = _titles(data)
    tick("titles")
    releases.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".cuts-", dir=releases))
    try:
        windows, (writer, popularity) = _learn_all(data, recipe, releases, version, titles, scratch, tick)
        ranked = rank_all(windows, data.found, recipe, writer.root, tick)
        for scene in scenes(recipe, data.found):
            if scene.name in ranked:
                register(writer, scene, ranked[scene.name])
        writer.about(
            seed=recipe.seed,
            rankers={name: made.report for name, made in ranked.items()},
            example_users=_examples(data),
            input=[line for part in inputs.reports for line in part.lines()],
        )
        manifest = writer.finish()
        tick("done")
    except BaseException:
        shutil.rmtree(releases / version, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    dim = 0 if titles is None else titles.shape[1]
    names = {name: made.names for name, made in ranked.items()}
    return Built(manifest, data, recipe, scenes(recipe, data.found), names, popularity, dim)


@contextlib.contextmanager
def discarded_on_failure(manifest: Manifest) -> Iterator[None]:
    """Remove the release's folder when what follows fails, unless it is the active one by then."""
    try:
        yield
    except BaseException:
        if active(manifest.root.parent) != manifest.release:
            shutil.rmtree(manifest.root, ignore_errors=True)
        raise


def _titles(data: Dataset) -> np.ndarray | None:
    column = data.item_columns.get("title")
    return title_vectors(column.decode()) if isinstance(column, Strings) else None


def cuts_of(data: Dataset, recipe: Recipe, folder: Path) -> list[Cut]:
    """The training cuts, oldest first: windows of equal length that end at as_of.

    A window is 30 days, or a twelfth of a shorter span's days; the oldest cut leaves at least as much history as
    a window is long.
    """
    start = float(data.ts.min()) if len(data.ts) else data.as_of
    span = (data.as_of - start) / DAY
    length = float(np.clip(span / 12, SHORTEST_WINDOW, LONGEST_WINDOW)) * DAY
    ends = [data.as_of + 1 - length * back for back in range(1, recipe.windows + 1)]
    return [Cut(f"cut{i}", cut, length, folder) for i, cut in enumerate(reversed(ends)) if cut - length > start]


def _learn_all(
    data: Dataset,
    recipe: Recipe,
    releases: Path,
    version: str,
    titles: np.ndarray | None,
    scratch: Path,
    tick: Tick,
) -> tuple[list[dict[str, Window]], Any]:
    """Every cut and the final release, each in a process of its own: they share nothing but the input."""
    cuts = cuts_of(data, recipe, scratch)
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(cores(), mp_context=context) as pool:
        ticks = manager.Queue()
        jobs: list[Future[Any]] = [pool.submit(_train_cut, data, recipe, cut, titles, ticks) for cut in reversed(cuts)]
        jobs.append(pool.submit(_final_cut, data, recipe, releases, version, titles, ticks))
        _follow(jobs, ticks, tick)
        *windows, final = [job.result() for job in jobs]
    return windows[::-1], final


def _follow(jobs: Sequence[Future[Any]], ticks: Any, tick: Tick) -> None:
    """Pass the workers' ticks on until every job has ended, or one has failed."""
    for job in jobs:
        job.add_done_callback(lambda _: ticks.put(None))
    ended = 0
    while ended < len(jobs):
        said = ticks.get()
        if said is None:
            ended += 1
            if any(job.done() and job.exception() for job in jobs):
                return
        else:
            tick(said)


def _train_cut(data: Dataset, recipe: Recipe, cut: Cut, titles: np.ndarray | None, ticks: Any) -> dict[str, Window]:
    return train_cut(data, recipe, cut, titles, ticks.put)


def _final_cut(
    data: Dataset, recipe: Recipe, releases: Path, version: str, titles: np.ndarray | None, ticks: Any
) -> Any:
    return final_cut(data, recipe, releases, version, titles, ticks.put)


def _examples(data: Dataset) -> list[str]:
    """Users that show what the service does: about the median length of history, and active lately."""
    lengths = np.diff(data.bounds)
    recent = np.unique(data.user[-min(len(data.user), 20_000) :])
    if not len(recent):
        return []
    middle = np.median(lengths[recent])
    nearest = recent[np.argsort(np.abs(lengths[recent] - middle), kind="stable")][:EXAMPLES]
    return [data.user_ids[user] for user in nearest]
