"""The configuration of a built release, as plain values by file; YAML is written from them elsewhere."""

from __future__ import annotations

from typing import Any

from bootstrap.artefacts import SPACE, TITLES, WIDE
from bootstrap.build import Built
from bootstrap.recipe import DAY, SCENES, Scene, Step, derived

RELEVANCE = {"home": 0.95, "discover": 0.9}
DIVERSE = 0.7
TRIED_IN = "discover"
RETURNED = ("title", "price", "category")
HEADS = ["buy"]
FILES = (
    "service.yaml",
    "features.yaml",
    "models.yaml",
    "abtest.yaml",
    *(f"scenes/{scene}.yaml" for scene in SCENES),
)


def documents(built: Built) -> dict[str, dict[str, Any]]:
    """Contents by file name, `scenes/home.yaml` included."""
    files: dict[str, dict[str, Any]] = {
        "service.yaml": {
            "version": 1,
            "store": {"url": "${REDIS_URL:-}"},
            "releases": "var/releases",
            "extensions": [],
            "context": {"region": "str = all", "hour": "int", "app_version": "semver = 0.0.0"},
        },
        "features.yaml": _features(built),
        "models.yaml": _models(built),
        "abtest.yaml": _experiments(built),
    }
    for scene in built.scenes:
        files[f"scenes/{scene.name}.yaml"] = _scene(built, scene)
    return files


def _features(built: Built) -> dict[str, Any]:
    recipe, found = built.recipe, built.found
    vector = f"f32[{recipe.factors}]"
    user: dict[str, Any] = {"vector": {"release": "user_vectors", "fields": {"embedding": vector}}}
    if found.user_columns:
        user["profile"] = {"release": "users", "fields": dict(found.user_columns)}
    wide = f"f32[{recipe.wide_factors}]"
    user["wide"] = {"release": "user_wide_vectors", "fields": {"wide": wide}}
    user["behaviour"] = {"events": list(found.events), "last": recipe.recent, "as": "recent_items"}
    item: dict[str, Any] = {"vector": {"release": "item_vectors", "fields": {"embedding": vector}}}
    if found.item_columns:
        item["catalogue"] = {"release": "items", "fields": dict(found.item_columns)}
    item["wide"] = {"release": "item_wide_vectors", "fields": {"wide": wide}}
    if built.title_dim:
        item["titles"] = {"release": "item_titles", "fields": {"title_vector": f"f32[{built.title_dim}]"}}
    item["popularity"] = {"release": "item_popularity", "fields": dict(built.popularity)}
    return {"version": 1, "user": user, "item": item, "derived": derived(recipe, found)}


def _models(built: Built) -> dict[str, Any]:
    spaces: dict[str, Any] = {SPACE: {"dim": built.recipe.factors, "metric": "ip"}}
    spaces[WIDE] = {"dim": built.recipe.wide_factors, "metric": "ip"}
    if built.title_dim:
        spaces[TITLES] = {"dim": built.title_dim, "metric": "cosine"}
    rankers = {scene.name: scene.model for scene in built.scenes}
    return {
        "version": 1,
        "spaces": spaces,
        "indexes": {"item_vectors": {"over": "item.embedding", "kind": "auto", "recall_floor": 0.93}},
        "tables": {"i2i": {"items": "item"}, "popular": {"group": built.found.group or "all"}},
        "models": {rankers[name]: {"features": list(names), "heads": HEADS} for name, names in built.ranked.items()},
    }


def _experiments(built: Built) -> dict[str, Any]:
    """One experiment runs: does more diversity in `discover` pay?"""
    params, scenes = {}, {}
    for scene in built.scenes:
        name = parameter(scene)
        usual = RELEVANCE[scene.name]
        params[name] = {"float": [0, 1], "default": usual, "layer": f"{scene.name}/re_rank"}
        experiments: dict[str, Any] = {}
        if scene.name == TRIED_IN:
            experiments["mmr_relevance@1"] = {
                "owner": "ranking",
                "status": "running",
                "slots": [[0, 2000]],
                "buckets": {
                    "control": {"weight": 5000, "control": True, "set": {name: usual}},
                    "diverse": {"weight": 5000, "set": {name: DIVERSE}},
                },
            }
        scenes[scene.name] = {"layers": {"re_rank": {"unit": "user_id", "experiments": experiments}}}
    return {"version": 1, "params": params, "scenes": scenes}


def parameter(scene: Scene) -> str:
    """The experiment parameter of a scene's MMR."""
    return f"{scene.name}.relevance"


def _scene(built: Built, scene: Scene) -> dict[str, Any]:
    found = built.found
    document: dict[str, Any] = {
        "version": 1,
        "scene": scene.name,
        "budget": "120ms",
        "recall": {step.name: _settings(step, scene_table=True) for step in scene.recall},
        "filters": {step.name: _filter(step) for step in scene.filters},
        "pre_rank": {
            scene.pre_rank.use: list(scene.pre_rank.settings.values()),
            **scene.pre_rank.common,
        },
    }
    if scene.name in built.ranked:
        document["rank"] = {"model": scene.model, "score": "buy"}
    similarity = "item.title_vector" if built.title_dim else "item.embedding"
    document["re_rank"] = [{"mmr": {"similarity": similarity, "relevance": f"${parameter(scene)}"}}]
    if found.kind is not None:
        document["re_rank"].append({"spread": {"by": f"item.{found.kind}", "max": 2, "within": 5}})
    document["return"] = [name for name in RETURNED if name in found.item_columns]
    document["fallback"] = "popular" if found.group is None else {"table": "popular", "by": f"user.{found.group}"}
    return document


def _settings(step: Step, *, scene_table: bool = False) -> dict[str, Any]:
    settings: dict[str, Any] = {"use": step.use} if step.use != step.name else {}
    for name, value in step.settings.items():
        if scene_table and name == "table" and value == step.name:
            continue  # a channel's table is called like the channel unless it says otherwise
        plain = list(value) if isinstance(value, tuple) else value
        settings[name] = _duration(value) if name == "half_life" else plain
    return {**settings, **step.common}


def _filter(step: Step) -> Any:
    if step.use == "expression":
        return step.settings["condition"]
    return _settings(step)


def _duration(seconds: float) -> str:
    return f"{seconds / DAY:g}d"
