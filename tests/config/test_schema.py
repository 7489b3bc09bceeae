"""JSON Schemas for editors agree with what the loader accepts."""

from __future__ import annotations

import json

import pytest

from app.config.schema import json_schemas
from tests.config.json_schema import violations
from tests.config.support import ABTEST, EXAMPLE, FEATURES, HOME, MODELS, SERVICE, components, load

SCHEMAS = json_schemas(components())


def found(file: str, document: object) -> list[str]:
    schema = SCHEMAS["scenes/*.yaml" if file == HOME else file]
    return list(violations(document, schema, schema))


@pytest.mark.parametrize("file", [SERVICE, FEATURES, MODELS, ABTEST, HOME])
def test_the_good_files_fit_their_schemas(file: str) -> None:
    assert found(file, load(EXAMPLE).documents[file]) == []


def test_schemas_are_plain_json() -> None:
    assert json.loads(json.dumps(SCHEMAS)) == SCHEMAS
    assert all(schema["$schema"].startswith("https://json-schema.org/") for schema in SCHEMAS.values())


@pytest.mark.parametrize(
    ("file", "change"),
    [
        (SERVICE, {"relases": "x"}),
        (SERVICE, {"version": 2}),
        (SERVICE, {"store": {"timeout": 50}}),
        (FEATURES, {"item": {"x": {"release": "items"}}}),
        (MODELS, {"indexes": {"x": {"over": "item.embedding", "kind": "hnsw"}}}),
        (ABTEST, {"params": {"x": {"int": [0, 1], "default": 0}}}),
        (HOME, {"budget": 120}),
        (HOME, {"recall": {"vector": {"index": "item_vectors", "kk": 3}}}),
        (HOME, {"recall": {"mine": {"k": 3}}}),
        (HOME, {"recall": {"mine": {"use": "vektor"}}}),
        (HOME, {"recall": {"mine": {"use": "popular", "k": "many"}}}),
        (HOME, {"filters": {"seen": {"on_fail": "skip"}}}),
        (HOME, {"pre_rank": {"dott": ["user.embedding"]}}),
        (HOME, {"re_rank": [{"mmr": {}, "windo": 3}]}),
    ],
)
def test_an_editor_sees_what_the_loader_refuses(file: str, change: dict[str, object]) -> None:
    assert found(file, {**load(EXAMPLE).documents[file], **change})


def test_component_settings_have_types_defaults_and_a_description() -> None:
    popular = SCHEMAS["scenes/*.yaml"]["$defs"]["recall.popular"]
    assert popular["properties"]["k"]["default"] == 100
    assert popular["required"] == []
    assert popular["description"]
