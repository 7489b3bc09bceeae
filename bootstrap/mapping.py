"""Which column of a file is which field: by name, unless `--map field=column` says so."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from bootstrap.errors import BootstrapError
from bootstrap.source import Source

_NAMES = """
user_id: user_id user customer_id customer cust_id client_id visitor_id household_id household household_key
user_id: member_id account_id reviewer_id buyer_id shopper_id person_id subscriber_id
item_id: item_id item product_id product stock_code sku sku_id asin parent_asin article_id movie_id track_id
item_id: song_id book_id game_id content_id goods_id news_id video_id product_code item_code upc ean gtin isbn
timestamp: timestamp ts time datetime date event_time event_timestamp event_date invoice_date
timestamp: invoice_datetime transaction_timestamp transaction_date transaction_time transaction_dt order_date
timestamp: order_time order_timestamp purchase_date purchase_time created_at unix_review_time unix_time
timestamp: occurred_at t_dat
event: event event_type event_name action action_type behavior behaviour behavior_type interaction
event: interaction_type
weight: weight quantity qty count units
title: title name product_title product_name item_name item_title display_name description
title: product_description item_description
price: price unit_price sale_price sales_price selling_price list_price retail_price
category: category category_name category_code product_category item_category main_category department
category: product_group product_group_name genre genres product_type category_id
reserved: and or not in is if else true false null none item user context channel
"""


def _names(field: str) -> tuple[str, ...]:
    lines = (line.partition(": ") for line in _NAMES.strip().splitlines())
    return tuple(name for head, _, names in lines if head == field for name in names.split())


ROLES: Mapping[str, tuple[str, ...]] = {
    field: _names(field) for field in ("user_id", "item_id", "timestamp", "event", "weight")
}
"""Field -> names that mean it; the first is the field's own and wins over the others."""

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {field: _names(field) for field in ("title", "price", "category")}
"""Attribute of an item -> names that mean it, the best first."""

LONGEST = 100
"""Letters in the name of an attribute: a release keeps it in a file that is called like it, with a word or two."""

RESERVED = frozenset(_names("reserved"))


SWITCHED_OFF = ("event", "weight")
"""Roles that `--map field=`, with nothing behind the sign, takes away."""


def mapping_of(pairs: Iterable[str]) -> dict[str, str]:
    """Field -> column of `--map` options as people write them. Raises BootstrapError."""
    mapping: dict[str, str] = {}
    for pair in pairs:
        field, equals, column = (part.strip() for part in pair.partition("="))
        if not equals or not field:
            missing = "field" if equals else "'='"
            raise BootstrapError(f"--map {pair}: no {missing}. Expected FIELD=COLUMN, such as user_id=customer.")
        if len(field.encode()) > LONGEST:
            raise BootstrapError(f"--map {field[:20]}...={column}: the field's name is long. Expected {LONGEST} bytes.")
        if field in mapping:
            raise BootstrapError(f"--map {pair}: {field} is mapped to {mapping[field]!r} already. Expected it once.")
        if not column and field not in SWITCHED_OFF:
            only = " and ".join(SWITCHED_OFF)
            raise BootstrapError(f"--map {pair}: no column. Expected a column's name; only {only} can do without.")
        mapping[field] = column
    return mapping


def plain(name: str) -> str:
    """A name as it is compared: lower case, letters and digits only."""
    return re.sub(r"[\W_]+", "", name).casefold()


def identifier(name: str) -> str:
    """The column's name as an identifier: `UnitPrice` and `Unit price` become `unit_price`; LONGEST letters of it."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    text = re.sub(r"[^0-9a-z]+", "_", words.casefold()).strip("_")[:LONGEST].strip("_") or "column"
    return f"c_{text}" if text[0].isdigit() or text in RESERVED else text


def find(source: Source, field: str, column: str) -> str | None:
    """The column that `--map field=column` means in this file: exact, else the only one alike; else None."""
    if column in source.names:
        return column
    alike = [name for name in source.names if plain(name) == plain(column)]
    if len(alike) > 1:
        raise source.error(f"--map {field}={column} fits {_listed(alike)}. Expected one; write it exactly.")
    return alike[0] if alike else None


def required_role(source: Source, field: str, mapping: Mapping[str, str], *, strict: bool = True) -> str:
    """The column that plays a role of ROLES.

    Raises InputError when several columns fit, none does, or the mapped one isn't there (unless not `strict`:
    another file may have it).
    """
    column = _mapped(source, field, mapping, strict=strict) or _usual(source, field, mapping)
    if column is None:
        names = [plain(name) for name in ROLES[field]]
        for other, taken in mapping.items():
            if other != field and plain(taken) in names and find(source, other, taken) is not None:
                message = f"has no column for {field}: --map {other}={taken} takes the one that looks like it"
                raise source.error(f"{message}. Expected --map {field}=COLUMN; there are {_shown(source)}.")
        raise source.error(f"has no column for {field}{_nearest(source, ROLES[field])}, or --map {field}=COLUMN")
    return column


def optional_role(source: Source, field: str, mapping: Mapping[str, str]) -> str | None:
    """As `required_role`, but None where no column fits; `--map field=` (no column) switches the role off."""
    if mapping.get(field) == "":
        return None
    return _mapped(source, field, mapping, strict=True) or _usual(source, field, mapping)


def _mapped(source: Source, field: str, mapping: Mapping[str, str], *, strict: bool) -> str | None:
    wanted = mapping.get(field)
    if not wanted:
        return None
    found = find(source, field, wanted)
    if found is None and strict:
        raise source.error(f"has no column {wanted!r}{_nearest(source, [wanted])}")
    return found


def _usual(source: Source, field: str, mapping: Mapping[str, str]) -> str | None:
    names = [plain(name) for name in ROLES[field]]
    taken = {plain(column) for other, column in mapping.items() if other != field}
    free = [name for name in source.names if plain(name) not in taken]
    fits = [name for name in free if plain(name) == names[0]] or [n for n in free if plain(n) in names]
    if len(fits) > 1:
        listed = _listed(fits)
        raise source.error(f"{listed} could each be the {field}. Expected one; choose with --map {field}={fits[0]}.")
    return fits[0] if fits else None


def attribute_names(
    columns: Sequence[str], source: Source, mapping: Mapping[str, str], *, of_items: bool
) -> dict[str, str]:
    """Attribute name -> source column for `columns`: mapped names, then title, price and category by their
    usual names (items only), then the columns' own names as identifiers, made distinct by a number."""
    out: dict[str, str] = {}
    for field, column in mapping.items():
        found = find(source, field, column) if column and field not in ROLES else None
        if found is not None and found in columns and found not in out.values():
            out[field] = found
    for field, aliases in (ATTRIBUTES if of_items else {}).items():
        for alias in aliases:
            alike = [c for c in columns if plain(c) == plain(alias) and c not in out.values()]
            if alike and field not in out:
                out[field] = alike[0]
    for column in columns:
        if column not in out.values():
            name, number = identifier(column), 2
            while name in out:
                name, number = f"{identifier(column)}_{number}", number + 1
            out[name] = column
    return out


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _nearest(source: Source, wanted: Sequence[str]) -> str:
    """The end of a sentence: the columns that there are, and the nearest to one of those wanted."""
    by_plain = {plain(name): name for name in source.names}
    near = [n for w in wanted for n in difflib.get_close_matches(plain(w), by_plain, n=1, cutoff=0.75)]
    hint = f"; nearest: {by_plain[near[0]]}" if near else ""
    return f"{hint}. Expected {' or '.join(wanted[:3])}; there are {_shown(source)}"


def _shown(source: Source) -> str:
    return _listed(source.names if len(source.names) <= 20 else [*source.names[:20], "..."])
