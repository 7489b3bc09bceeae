"""Puts a misbehaving model where a scene's ranker is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.faults.errors import CantPlay
from app.faults.place import SERVICE, Place

EXTENSION = "app.faults.components"


def with_model(component: str, switch: Path, **settings: Any) -> Callable[[Place], None]:
    """An edit: the scene's ranker becomes `component`, which has the same model. Raises CantPlay without a ranker."""

    def edit(place: Place) -> None:
        with place.edit(SERVICE) as service:
            service["extensions"] = [*service.get("extensions", ()), EXTENSION]
        with place.edit(place.scene()) as scene:
            rank = scene.get("rank")
            if not isinstance(rank, dict) or not {"model", "score"} <= rank.keys():
                raise CantPlay(f"the scene {scene['scene']} has no ranker with a model")
            scene["rank"] = {component: {**rank, "switch": str(switch), **settings}}

    return edit
