import pytest

from app.config.load import load_config
from app.config.write import write_files
from bootstrap.configuration import documents
from bootstrap.recipe import Found, Recipe, scenes
from tests.bootstrap.small import dataset, shop_rows
from tests.bootstrap.test_configuration import built


@pytest.mark.parametrize(
    ("events", "bought"),
    [
        (("purchase",), ()),
        (("view",), ()),
        (("click", "view"), ()),
        (("buy", "Purchase"), ()),
        (("click", "purchase"), ("purchase",)),
        (("BUY", "Order Completed", "productPurchased", "view"), ("BUY", "Order Completed", "productPurchased")),
        (("borderline", "preorders", "buyers_guide", "sale"), ("sale",)),
    ],
)
def test_purchases_are_told_from_other_events_where_there_are_both(events, bought):
    found = Found({}, {}, events)
    assert found.bought == bought
    home, discover = scenes(Recipe(), found)
    [repeat] = [step for step in home.recall if step.use == "repeat"]
    [seen] = [step for step in discover.filters if step.use == "seen"]
    for step in (repeat, seen):
        assert step.settings.get("events", ()) == bought


def test_what_was_only_looked_at_may_be_discovered(tmp_path):
    rows = [(*row, ("view", "buy")[at % 2]) for at, row in enumerate(shop_rows(events=100))]
    write_files(tmp_path, documents(built(dataset(tmp_path, rows))))
    config = load_config(tmp_path, env={})
    steps = [*config.scenes["home"].recall, *config.scenes["discover"].filters]
    told = {step.name: step.settings["events"] for step in steps if "events" in step.settings}
    assert told == {"recall.repeat": ("buy",), "filters.seen": ("buy",)}
