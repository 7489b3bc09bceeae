"""What a release holds, worked out from a dataset: vectors, lists, popularity, titles, an index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from bootstrap import als
from bootstrap.dataset import Dataset
from bootstrap.item_to_item import ItemToItemSettings, neighbours
from bootstrap.matrix import decayed_matrix
from bootstrap.popularity import popularity_columns, popularity_lists, sold_of_codes
from bootstrap.recipe import Recipe
from expression import Strings
from features.item_table import IdTable
from features.lists import Lists
from features.manifest import ReleaseWriter
from features.resident import FieldSpec
from stages.runtime.indexes import BuiltIndex, build_index
from stages.runtime.release import ReleaseSpec, ViewSpec

SPACE, WIDE, TITLES = "als", "wide", "titles"
QUERIES = 200  # users that the index's recall is measured with


@dataclass(frozen=True)
class Knowledge:
    """All that is learned from events up to the dataset's as_of."""

    users: np.ndarray
    items: np.ndarray
    wide_users: np.ndarray
    wide_items: np.ndarray
    i2i: Lists
    popular: Lists
    popularity: dict[str, np.ndarray]
    index: BuiltIndex


def learn(data: Dataset, recipe: Recipe, progress: Callable[[str], None]) -> Knowledge:
    """Train everything but the rankers. Seconds for a million events."""
    shape = (len(data.user_ids), len(data.item_ids))
    one = np.ones(len(data.user), np.float32)
    progress("vectors")
    users, items = _factors(data, recipe, recipe.factors, recipe.als_half_life)
    wide_users, wide_items = _factors(data, recipe, recipe.wide_factors, recipe.wide_half_life)
    progress("neighbours")
    near = decayed_matrix(data.user, data.item, data.ts, one, shape, data.as_of, recipe.neighbour_half_life)
    i2i = _lists(neighbours(near, ItemToItemSettings()))
    progress("popularity")
    columns = popularity(data)
    popular = _popular(data, recipe)
    progress("index")
    known = np.flatnonzero(~np.isnan(users[:, 0]))
    rng = np.random.default_rng(recipe.seed)
    asking = users[rng.choice(known, min(QUERIES, len(known)), replace=False)] if len(known) else users[:0]
    index = build_index(items, np.ascontiguousarray(asking), space=SPACE, seed=recipe.seed)
    return Knowledge(users, items, wide_users, wide_items, i2i, popular, columns, index)


def popularity(data: Dataset) -> dict[str, np.ndarray]:
    """Columns over items of how they sell, and how what shares a code with them does."""
    columns = popularity_columns(data.user, data.item, data.ts, len(data.item_ids), data.as_of)
    for code in data.found.codes:
        column = data.item_columns[code]
        codes = column.codes if isinstance(column, Strings) else np.asarray(column)
        columns[f"{code}_sold_30d"] = sold_of_codes(columns["sold_30d"], codes)
    return columns


def _factors(data: Dataset, recipe: Recipe, factors: int, half_life: float) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of users (NaN for one without any) and of items, from events that lose half per `half_life` days."""
    shape = (len(data.user_ids), len(data.item_ids))
    one = np.ones(len(data.user), np.float32)
    settings = als.AlsSettings(
        factors=factors,
        alpha=recipe.als_alpha,
        regularisation=recipe.als_regularisation,
        iterations=recipe.als_iterations,
        seed=recipe.seed,
    )
    made = als.train(decayed_matrix(data.user, data.item, data.ts, one, shape, data.as_of, half_life), settings)
    return np.where(np.any(made.users, axis=1, keepdims=True), made.users, np.float32(np.nan)), made.items


def _lists(matrix: sp.csr_matrix) -> Lists:
    return Lists(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float32))


def _popular(data: Dataset, recipe: Recipe) -> Lists:
    groups: np.ndarray | None = None
    names: tuple[str, ...] = ()
    if data.found.group is not None:
        column = data.user_columns[data.found.group]
        assert isinstance(column, Strings)
        groups = column.codes[data.user]
        names = tuple(column.vocab.text(code) for code in range(len(column.vocab)))
    matrix = popularity_lists(
        data.item,
        data.ts,
        len(data.item_ids),
        data.as_of,
        recipe.popular_half_life,
        groups=groups,
        n_groups=len(names),
    )
    lists = _lists(matrix)
    return Lists(lists.indptr, lists.rows, lists.scores, ("all", *names))


def write_artefacts(
    releases: Path, version: str, data: Dataset, known: Knowledge, titles: np.ndarray | None
) -> ReleaseWriter:
    """Write all but the models; the caller adds those and finishes."""
    writer = ReleaseWriter(releases, version, data.as_of)
    writer.ids("item", IdTable.build(data.item_ids))
    writer.ids("user", IdTable.build(data.user_ids))
    writer.view("item_vectors", "item", {"embedding": known.items}, {"embedding": SPACE})
    writer.view("user_vectors", "user", {"embedding": known.users}, {"embedding": SPACE})
    writer.view("item_wide_vectors", "item", {"wide": known.wide_items}, {"wide": WIDE})
    writer.view("user_wide_vectors", "user", {"wide": known.wide_users}, {"wide": WIDE})
    if titles is not None:
        writer.view("item_titles", "item", {"title_vector": titles}, {"title_vector": TITLES})
    if data.item_columns:
        writer.view("items", "item", data.item_columns)
    if data.user_columns:
        writer.view("users", "user", data.user_columns)
    writer.view("item_popularity", "item", known.popularity)
    writer.lists("i2i", known.i2i)
    writer.lists("popular", known.popular, group=data.found.group)
    known.index.write(writer.root / "item_vectors.faiss")
    writer.file(
        "indexes",
        "item_vectors",
        "item_vectors.faiss",
        space=SPACE,
        kind=known.index.kind,
        effort=known.index.index.effort,
        recall={"k": known.index.k, "value": round(known.index.recall, 4), "against": "exhaustive search"},
    )
    return writer


def view_specs(data: Dataset, recipe: Recipe, popularity: dict[str, np.ndarray], dim: int) -> ReleaseSpec:
    """The views of such a release, as configuration would load them (models left out)."""
    vector = {"embedding": FieldSpec(f"f32[{recipe.factors}]")}
    views = [ViewSpec("item", "item_vectors", vector), ViewSpec("user", "user_vectors", vector)]
    wide = {"wide": FieldSpec(f"f32[{recipe.wide_factors}]")}
    views += [ViewSpec("item", "item_wide_vectors", wide), ViewSpec("user", "user_wide_vectors", wide)]
    widths = {"item.embedding": recipe.factors, "user.embedding": recipe.factors}
    widths |= {"item.wide": recipe.wide_factors, "user.wide": recipe.wide_factors}
    if dim:
        views.append(ViewSpec("item", "item_titles", {"title_vector": FieldSpec(f"f32[{dim}]")}))
        widths["item.title_vector"] = dim
    kinds = {n: FieldSpec(kind) for n, kind in data.found.item_columns.items()}
    if kinds:
        views.append(ViewSpec("item", "items", kinds))
    if data.user_columns:
        views.append(ViewSpec("user", "users", {n: FieldSpec(k) for n, k in data.found.user_columns.items()}))
    counted = {n: FieldSpec("time" if n in ("first_seen", "last_seen") else "f32") for n in popularity}
    views.append(ViewSpec("item", "item_popularity", counted))
    return ReleaseSpec(
        views=views, indexes={"item_vectors": "item.embedding"}, tables=("i2i", "popular"), widths=widths
    )
