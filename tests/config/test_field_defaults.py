"""A field's default fits its type, and an item's live field has a form for missing: else loading says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.build import default_of
from app.config.quantities import QuantityError, field_config
from features.live import LiveField
from tests.config.support import FEATURES, example, problems

FITTING = {
    "bool": ("true", "false"),
    "i32": ("0", "+7", "-2147483648", "2147483647", "mean"),
    "i64": ("-9223372036854775808", "9223372036854775807", "mean"),
    "f32": ("1e-60", "-3.4028235e38", "3.4028235677973362e38", "mean"),
    "f64": ("1e39", "-1.7976931348623157e308", "mean"),
    "time": ("1750000000.5", "1e39"),
    "str": ("", "none", "99999999999"),
    "vocab": ("other",),
}
UNFIT = {
    "bool": ("1", "True", "", "mean"),
    "i32": ("99999999999", "2147483648", "-2147483649", "1.5", "1e3", "x", ""),
    "i64": ("9223372036854775808", "-9223372036854775809", "1" * 5000, "0x10"),
    "f32": ("1e39", "-3.5e38", "3.4028235677973366e38", "nan", "inf", "1e400", ""),
    "f64": ("1e309", "-inf", "nan"),
    "time": ("1e309", "nan", "mean", "now"),
    "f32[2]": ("0", "mean"),
}
USER = "cache: {policy: fifo, bytes: 64MiB, ttl: 30s}, fields: {"
ITEM = "item:\n"


@pytest.mark.parametrize(("kind", "default"), [(kind, text) for kind, texts in FITTING.items() for text in texts])
def test_a_default_that_fits_is_the_columns_value(kind: str, default: str) -> None:
    value = default_of(field_config("x", f"{kind} = {default}"))
    if value == "mean":
        return
    column = LiveField("x", kind, value).column([None])
    if isinstance(column, np.ndarray):
        assert np.isfinite(column).all()
        assert column[0] == column.dtype.type(value)
    else:
        assert column.decode() == [default]


@pytest.mark.parametrize(("kind", "default"), [(kind, text) for kind, texts in UNFIT.items() for text in texts])
def test_a_default_that_does_not_fit_its_type_is_refused(kind: str, default: str) -> None:
    with pytest.raises(QuantityError, match=r"isn't a default for|has no default"):
        field_config("x", f"{kind} = {default}")


@pytest.mark.parametrize(
    ("default", "said"),
    [
        ("i32 = 99999999999", "'99999999999' isn't a default for i32. Expected a number or mean."),
        ("f32 = 1e39", "'1e39' isn't a default for f32. Expected a number or mean."),
        ("time = mean", "'mean' isn't a default for time. Expected a number."),
    ],
)
def test_views_of_users_and_items_live_and_release_say_where_the_default_is(
    tmp_path: Path, default: str, said: str
) -> None:
    views = f"  lv: {{live: {{key: 'i:{{id}}'}}, fields: {{iq: '{default}'}}}}\n"
    folder = example(
        tmp_path,
        (FEATURES, USER, f"{USER}iq: '{default}', "),
        (FEATURES, "{release: items, fields: {", f"{{release: items, fields: {{cq: '{default}', "),
        (FEATURES, ITEM, ITEM + views),
    )
    assert problems(folder) == [
        f"features.yaml:3 user.profile.fields.iq: {said}",
        f"features.yaml:8 item.lv.fields.iq: {said}",
        f"features.yaml:10 item.catalogue.fields.cq: {said}",
    ]


@pytest.mark.parametrize(
    ("kind", "way_out"),
    [
        ("i32", "such as `i32 = 0`, or f64"),
        ("i64", "such as `i64 = 0`, or f64"),
        ("bool", "such as `bool = false`"),
    ],
)
def test_an_items_live_field_that_could_not_be_missing_needs_a_default(tmp_path: Path, kind: str, way_out: str) -> None:
    view = f"  lv: {{live: {{key: 'i:{{id}}'}}, fields: {{iq: {kind}}}}}\n"
    assert problems(example(tmp_path, (FEATURES, ITEM, ITEM + view))) == [
        "features.yaml:8 item.lv.fields.iq: "
        f"An item's live {kind} has no form for missing. Expected a default, {way_out}."
    ]


def test_fields_that_can_be_missing_or_always_have_a_value_need_no_default(tmp_path: Path) -> None:
    fields = "{a: f32, b: f64, c: time, d: str, e: vocab, f: 'f32[2]', g: i64 = 0}"
    view = f"  lv: {{live: {{key: 'i:{{id}}'}}, fields: {fields}}}\n"
    folder = example(
        tmp_path,
        (FEATURES, USER, f"{USER}iq: i32, vip: bool, "),
        (FEATURES, "{release: items, fields: {", "{release: items, fields: {whole: i32, "),
        (FEATURES, ITEM, ITEM + view),
    )
    assert problems(folder) == []
