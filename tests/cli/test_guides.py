"""The guides' code, configuration and tables of answers are true."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from abtest import Experiments
from app.config.load import load_config
from expression import FUNCTIONS, ExpressionError, Strings, compile_expression
from stages.guard import REASONS
from stages.registry import discover
from stages.scene import StepConfig
from tests.config.support import HOME, SERVICE, example
from tests.stages.small import Engine, home, item, load, write_release

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = {"item.price": "f32", "item.stock": "i32", "item.status": "str", "user.age": "f32", "context.hour": "int"}


def guide(name: str) -> str:
    return (DOCS / "guides" / f"{name}.md").read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", guide(name), re.MULTILINE | re.DOTALL)


def rows(name: str, heading: str) -> list[tuple[str, str]]:
    """The two columns of the first table under a heading, without its header."""
    section = guide(name).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `(.+?)` \| (.+?) \|$", section, re.MULTILINE)
    assert found
    return found


@pytest.fixture
def shop_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The package of the guide, importable."""
    fresh, last_item, _ = blocks("new-channel", "python")
    package = tmp_path / "extensions" / "shop_channels"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"{fresh}\n\n{last_item}", encoding="utf-8")
    monkeypatch.syspath_prepend(package.parent)
    yield "shop_channels"
    sys.modules.pop("shop_channels", None)


def test_the_channel_of_the_guide_is_a_name_in_yaml(shop_channels: str, tmp_path: Path) -> None:
    lines = "fresh: {table: popular, k: 30}\n  new_in_shop: {use: fresh, table: popular, k: 30, at_least: 10}\n"
    for line in lines.split("\n  "):
        assert line.strip() in guide("new-channel")
    folder = example(
        tmp_path,
        (SERVICE, "extensions: []", f"extensions: [{shop_channels}]"),
        (HOME, "recall:\n", f"recall:\n  {lines}  last_item: {{table: i2i, k: 30}}\n"),
    )
    config = load_config(folder, env={})
    assert [step.name for step in config.scenes["home"].recall][:3] == [
        "recall.fresh",
        "recall.new_in_shop",
        "recall.last_item",
    ]


def test_the_channels_of_the_guide_recall(shop_channels: str, tmp_path: Path) -> None:
    found = discover([shop_channels]).of("recall")
    engine = Engine(load(write_release(tmp_path)))
    engine.did("u1", item(9), item(17))
    fresh = StepConfig("recall", "recall.fresh", found["fresh"], {"table": "popular", "k": 3})
    last = StepConfig("recall", "recall.last_item", found["last_item"], {"table": "i2i", "k": 2})
    answer, outcome = engine.run(home(recall=(fresh, last), filters=(), re_rank=()), size=5)
    assert {record.name: record.n_out for record in outcome.records if record.name.startswith("recall.")} == {
        "recall.fresh": 3,
        "recall.last_item": 2,
    }
    assert {(name, *channels) for name, channels in zip(answer.ids, answer.channels, strict=True)} == {
        *((item(row), "fresh") for row in range(3)),
        *((item(17 + 8 * step), "last_item") for step in (1, 2)),
    }


def test_the_test_of_the_guide_passes(shop_channels: str) -> None:
    names: dict[str, object] = {}
    exec(blocks("new-channel", "python")[2], names)
    test = names["test_the_head_of_the_list_is_recalled"]
    assert callable(test)
    test()


def test_the_experiment_of_the_guide_compiles() -> None:
    document = yaml.safe_load(blocks("experiments", "yaml")[0])
    experiments, problems = Experiments.compile(document, {}, ["home", "discover"])
    assert problems == []
    assert experiments is not None
    assert experiments.assign("discover", {"user_id": "u42"}, {}, 0.0).buckets == {"re_rank": "mmr_relevance@1/diverse"}
    assert experiments.values_of("discover.relevance") == (0.9, 0.7)


@pytest.mark.parametrize(("text", "said"), rows("expressions", "Errors"))
def test_a_wrong_expression_of_the_guide_says_what_the_guide_says(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, SCHEMA)
    assert caught.value.message == said


@pytest.mark.parametrize(("text", "said"), rows("expressions", "Missing"))
def test_an_expression_over_a_missing_price_gives_what_the_guide_says(text: str, said: str) -> None:
    value = compile_expression(text, SCHEMA)({"item.price": np.array([np.nan], np.float32)})[0]
    expected = said.partition(":")[0]
    assert (str(bool(value)).lower() if isinstance(value, np.bool_) else "missing") == expected
    assert isinstance(value, np.bool_) or np.isnan(value)


def test_the_guide_names_every_function_and_its_examples_compile() -> None:
    section = guide("expressions").partition("## Functions")[2].partition("## ")[0]
    assert set(re.findall(r"`([a-z0-9]+)\(", section)) == set(FUNCTIONS)
    schema = {**SCHEMA, "buy": "f32"}
    scene = yaml.safe_load(blocks("expressions", "yaml")[0])
    columns = {"item.stock": np.array([1, 0]), "item.status": Strings.encode(["on", "on"])}
    assert compile_expression(scene["filters"]["sellable"], schema)(columns).tolist() == [True, False]
    assert compile_expression(scene["rank"]["score"], schema).type == "number"
    assert compile_expression(scene["recall"]["popular"]["when"], schema).type == "bool"


def test_the_guide_for_operators_names_every_reason() -> None:
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    section = text.partition("## Reasons")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == REASONS
