"""The reference workload as the service sees it: a release and a configuration over the reference arrays.

Same items, lists, index file, ranker and users as the floor's; the scene `reference` asks for the floor's
steps with the floor's sizes. One experiment over all users runs on it, so every request writes an exposure.
"""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.build import live_views
from app.config.load import load_config
from app.config.write import render
from features.behaviour import Behaviour, event_codes
from features.codec import encode_rows
from features.commands import Command
from features.event_codec import EVENT
from features.ids import key_hashes
from features.item_table import IdTable
from features.lists import Lists
from features.live import LiveView
from features.manifest import FORMAT, ReleaseWriter, activate
from features.redis_tier import RedisTier
from perf.data import NOW, U64, Data, user_id
from perf.index import index_file
from perf.model import build_ranker
from perf.parts import HALF_LIFE, Workload

SCENE = "reference"
SPACE = "reference"
EVENTS = ("click", "purchase")
TIMEOUT = 30.0
BATCH = 500
LAYOUT = 1
PARAMETER = "reference.relevance"


@dataclass(frozen=True)
class Place:
    """Where the service's files lie: `recserve serve --config CONFIGS --var VAR`."""

    configs: Path
    var: Path


def write_service(folder: Path, data: Data, workload: Workload) -> Place:
    """Write release (once) and configuration (every time) beside the data in ``folder``; 1 GB at full size."""
    var = folder / "service"
    version = f"reference-{FORMAT}.{LAYOUT}"
    root = var / "releases" / version
    if not (root / "manifest.json").exists():
        shutil.rmtree(root, ignore_errors=True)
        _release(var / "releases", version, folder, data, workload)
    activate(var / "releases", version)
    for old in var.glob("exposures*"):  # of earlier runs; nobody analyses them
        old.unlink()
    place = Place(var / "configs", var)
    for name, document in _documents(data, workload).items():
        path = place.configs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(document))
    return place


def _release(releases: Path, version: str, folder: Path, data: Data, workload: Workload) -> None:
    writer = ReleaseWriter(releases, version, NOW)
    writer.ids("item", IdTable.build([text.decode() for text in data.ids.tolist()], version))
    writer.ids("user", IdTable.build([user_id(row) for row in range(len(data.user_vectors))], version))
    writer.view("item_vectors", "item", {"embedding": data.vectors}, {"embedding": SPACE})
    writer.view("user_vectors", "user", {"embedding": data.user_vectors}, {"embedding": SPACE})
    writer.view("item_dense", "item", {"dense": data.dense})
    writer.view("items", "item", {"price": data.price})
    writer.lists("i2i", Lists(data.i2i_indptr, data.i2i_rows, data.i2i_scores))
    groups = tuple(group_name(group) for group in range(len(data.popular_indptr) - 1))
    writer.lists("popular", Lists(data.popular_indptr, data.popular_rows, data.popular_scores, groups))
    shutil.copyfile(index_file(folder, len(data.vectors)), writer.root / "item_vectors.faiss")
    writer.file(
        "indexes", "item_vectors", "item_vectors.faiss", space=SPACE, kind="ivf_sq8", effort=workload.nprobe, recall={}
    )
    widths = data.user_vectors.shape[1] + data.user_profiles.shape[1], data.dense.shape[1]
    (writer.root / "deepfm.onnx").write_bytes(build_ranker(*widths))
    writer.file("models", "deepfm", "deepfm.onnx", heads=["buy"])
    writer.finish()


def group_name(group: int) -> str:
    """The name of a popularity group, as requests send it in ``context.region``."""
    return f"g{group}"


def _documents(data: Data, workload: Workload) -> dict[str, dict[str, Any]]:
    vector, profile, dense = (f"f32[{a.shape[1]}]" for a in (data.vectors, data.user_profiles, data.dense))
    embedding = {"embedding": vector}
    return {
        "service.yaml": {
            "version": 1,
            "store": {"url": "${REDIS_URL:-}"},
            "releases": "var/releases",
            "workers": 1,
            "context": {"region": "str = all", "hour": "int", "app_version": "semver = 0.0.0"},
        },
        "features.yaml": {
            "version": 1,
            "user": {
                "vector": {"release": "user_vectors", "fields": embedding},
                "profile": {"live": {"key": "profile:{id}", "layout": "protobuf"}, "fields": {"profile": profile}},
                "behaviour": {"events": list(EVENTS), "last": data.history_rows.shape[1], "as": "recent_items"},
            },
            "item": {
                "vector": {"release": "item_vectors", "fields": embedding},
                "dense": {"release": "item_dense", "fields": {"dense": dense}},
                "catalogue": {"release": "items", "fields": {"price": "f32"}},
            },
        },
        "models.yaml": {
            "version": 1,
            "spaces": {SPACE: {"dim": data.vectors.shape[1], "metric": "ip"}},
            "indexes": {"item_vectors": {"over": "item.embedding", "kind": "ivf_sq8"}},
            "tables": {"i2i": {"items": "item"}, "popular": {"group": "region"}},
            "models": {
                "deepfm": {
                    "inputs": {"user": ["user.embedding", "user.profile"], "item": ["item.dense"]},
                    "heads": ["buy"],
                }
            },
        },
        "abtest.yaml": _experiments(workload),
        f"scenes/{SCENE}.yaml": _scene(workload),
    }


def _experiments(workload: Workload) -> dict[str, Any]:
    def bucket(relevance: float, **more: Any) -> dict[str, Any]:
        return {"weight": 5000, **more, "set": {PARAMETER: relevance}}

    layer = f"{SCENE}/re_rank"
    experiment = {
        "owner": "perf",
        "status": "running",
        "slots": [[0, 10_000]],
        "buckets": {"control": bucket(workload.relevance, control=True), "diverse": bucket(workload.relevance - 0.1)},
    }
    return {
        "version": 1,
        "params": {PARAMETER: {"float": [0, 1], "default": workload.relevance, "layer": layer}},
        "scenes": {SCENE: {"layers": {"re_rank": {"unit": "user_id", "experiments": {"exp_mmr@1": experiment}}}}},
    }


def _scene(workload: Workload) -> dict[str, Any]:
    days = f"{HALF_LIFE / 86_400:g}d"
    i2i = {"use": "item_to_item", "triggers": "user.recent_items", "k": workload.i2i, "half_life": days}
    return {
        "version": 1,
        "scene": SCENE,
        "budget": "120ms",
        "recall": {
            "vector": {"index": "item_vectors", "query": "user.embedding", "k": workload.vector},
            "i2i": i2i,
            "popular": {"by": "context.region", "k": workload.popular},
        },
        "merge": {"limit": workload.candidates},
        "pre_rank": {"dot": ["user.embedding", "item.embedding"], "keep": workload.ranked},
        "rank": {"model": "deepfm", "score": "buy"},
        "re_rank": [{"mmr": {"similarity": "item.embedding", "relevance": f"${PARAMETER}", "window": workload.window}}],
        "return": ["price"],
        "fallback": "popular",
    }


def fill_service(url: str, place: Place, data: Data) -> None:
    """Write every user's live profile and history, in the service's own formats: about 1 s per 10,000 users."""
    config = load_config(place.configs, env={})
    view = live_views(config)["user"]["profile"]
    asyncio.run(_fill(url, view, data))


async def _fill(url: str, view: LiveView, data: Data) -> None:
    tier = RedisTier(url, timeout=TIMEOUT, connect_timeout=TIMEOUT, connections=1)
    try:
        for start in range(0, len(data.user_vectors), BATCH):
            await tier.execute([_profiles(view, data, start)], timeout=TIMEOUT)
        behaviour = Behaviour(tier, event_codes(EVENTS))
        await behaviour.import_history(_histories(data), timeout=TIMEOUT)
    finally:
        await tier.close()


def _profiles(view: LiveView, data: Data, start: int) -> Command:
    assert view.schema is not None
    stop = min(start + BATCH, len(data.user_vectors))
    ids = [user_id(row) for row in range(start, stop)]
    rows = encode_rows(key_hashes(ids), {"profile": data.user_profiles[start:stop]}, view.schema)
    keys = [view.key.key(text.encode()) for text in ids]
    return ("MSET", *[part for pair in zip(keys, rows, strict=True) for part in pair])


def _histories(data: Data) -> Iterator[tuple[str, npt.NDArray[np.void]]]:
    hashes: U64 = np.empty(len(data.ids), dtype=np.uint64)
    hashes[data.key_rows] = data.key_hashes
    codes = event_codes(EVENTS)
    for user in range(len(data.history_rows)):
        records = np.empty(data.history_rows.shape[1], EVENT)
        records["item"], records["ts"] = hashes[data.history_rows[user]], data.history_ts[user]
        records["event"], records["weight"] = codes[EVENTS[0]], 1.0
        yield user_id(user), records
