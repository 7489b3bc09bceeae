"""The ranker is trained on what it is served: the same users, the same candidates, the same scores."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bootstrap.artefacts import popularity
from bootstrap.dataset import Dataset
from bootstrap.funnel import Funnel, load_cut
from bootstrap.read import read_inputs
from bootstrap.recipe import Recipe, scenes
from stages.runtime.models import open_session
from tests.e2e.shop import Shop
from tests.service import Place, Service

USERS = 25


@pytest.mark.parametrize("name", ["home", "discover"])
def test_served_scores_are_the_models_on_the_features_that_training_sees(
    built: Place, service: Service, shop: Shop, name: str
) -> None:
    data = Dataset.of(read_inputs(shop.interactions, items=shop.items, users=shop.users))
    recipe = Recipe()
    scene = next(one for one in scenes(recipe, data.found) if one.name == name)
    root = built.var / "releases" / (built.var / "releases" / "active").read_text().strip()
    document = json.loads((root / "manifest.json").read_text())
    columns = popularity(data)
    dim = int(document["views"]["item_titles"]["fields"]["title_vector"].removeprefix("f32[").removesuffix("]"))
    funnel = Funnel(data, recipe, scene, load_cut(root, data, recipe, columns, dim))
    session = open_session(root / f"{name}_ranker.onnx")
    users = [data.user_ids.index(user) for user in shop.user_ids[:: len(shop.user_ids) // USERS]]
    for user, seen in zip(users, funnel.collect(users), strict=True):
        scores = np.ravel(session.run(["buy"], {"features": seen.features})[0])
        expected = {data.item_ids[row]: float(score) for row, score in zip(seen.rows, scores, strict=True)}
        answer = service.ask(name, data.user_ids[user], size=50)
        assert answer["degraded"] == []
        served = {item["id"]: item["score"] for item in answer["items"]}
        assert len(served) == 50
        assert served == pytest.approx({item: expected[item] for item in served}, rel=1e-4)
