"""Interactions, items and users from Parquet or CSV files, whatever their columns are called."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bootstrap.attributes import Groups, attach
from bootstrap.columns import MAX_ID_BYTES, events, ids, too_long, weights
from bootstrap.csv_source import open_source
from bootstrap.data import Entities, Inputs, Interactions, Report, count
from bootstrap.entities import entities_from
from bootstrap.errors import InputError
from bootstrap.mapping import optional_role, required_role
from bootstrap.names import joined
from bootstrap.source import Selected, Source
from bootstrap.times import epoch_seconds

__all__ = ["Entities", "Inputs", "Interactions", "Report", "interactions_from", "read_inputs"]
__all__ += ["read_interactions", "read_items", "read_users"]

DEFAULT_EVENT = "purchase"
MOST_EVENTS = 100
HEAVIEST = 1e12
"""Sums of larger weights would leave the numbers that f32 can hold."""
DAY = 86_400.0
LAST_SECOND = 2.0**32
"""The store keeps seconds since 1970 in 32 bits."""


def read_inputs(
    interactions: str | Path,
    *,
    items: str | Path | None = None,
    users: str | Path | None = None,
    mapping: Mapping[str, str] | None = None,
    as_of: float | None = None,
) -> Inputs:
    """Everything that bootstrap is given, read and joined; reports note how many of the log's ids a file lacks.

    `mapping` is field -> column and serves all files; an id column that it names may be missing from the
    items or users file if the usual names find one there. Where a file and the log both describe an item,
    the file's column stands. Raises InputError, also for a mapped column that no file has and for a file that has
    none of the log's ids.
    """
    mapping = mapping or {}
    log = read_interactions(interactions, mapping, as_of=as_of)
    of_items = None if items is None else _covered(read_items(items, mapping), "item", log.item_ids)
    of_users = None if users is None else _covered(read_users(users, mapping), "user", log.user_ids)
    reports = [part.report for part in (log, of_items, of_users) if part is not None and part.report is not None]
    used = {field for report in reports for field in report.used}
    for field, column in mapping.items():
        if column and field not in used:
            raise open_source(interactions).error(
                f"--map {field}={column}: no input file has a usable column {column!r}. Expected a column's name."
            )
    return joined(log, of_items, of_users)


def _covered(part: Entities, what: str, ids: list[str]) -> Entities:
    report = part.report
    if report is None:
        return part
    lacking = len(set(ids).difference(part.ids))
    if lacking == len(ids):
        column, here, there = report.used[f"{what}_id"], _example(ids), _example(part.ids)
        message = f"none of the log's {len(ids):,} {what}s is in it. Expected ids as in the log, such as {here}; "
        message += f"column {column} has such as {there}. --map {what}_id=COLUMN names another."
        raise InputError(report.file, None, None, message)
    if not lacking:
        return part
    note = f"{lacking:,} of the log's {len(ids):,} {what}s aren't in it"
    return replace(part, report=replace(report, notes=(*report.notes, note)))


def _example(ids: list[str]) -> str:
    return repr(ids[0][:40])


def read_interactions(path: str | Path, mapping: Mapping[str, str], *, as_of: float | None = None) -> Interactions:
    """The behaviour log of a file; see `interactions_from`."""
    return interactions_from(open_source(path), mapping, as_of=as_of)


def read_items(path: str | Path, mapping: Mapping[str, str]) -> Entities:
    """The items of a file; see `entities_from`."""
    return entities_from(open_source(path), mapping, "item_id")


def read_users(path: str | Path, mapping: Mapping[str, str]) -> Entities:
    """The users of a file; see `entities_from`."""
    return entities_from(open_source(path), mapping, "user_id")


def interactions_from(source: Source, mapping: Mapping[str, str], *, as_of: float | None = None) -> Interactions:
    """The behaviour log of a source, rows ascending in time.

    Rows are dropped, and counted by reason in the report, that lie at or after `as_of` (epoch seconds; as if
    they had never been written), lack a user, item, time or event, have an id or event of more than 256 bytes,
    a time that the store can't keep, or a weight that isn't above zero (returns) or is absurd. Raises InputError
    when a column is missing or ambiguous, a time or weight can't be read, or no row remains.
    """
    used = {field: required_role(source, field, mapping) for field in ("user_id", "item_id", "timestamp")}
    for field in ("event", "weight"):
        if column := optional_role(source, field, mapping):
            used[field] = column
    ts = epoch_seconds(source, used["timestamp"], source.column(used["timestamp"]))
    late = ts >= (np.inf if as_of is None else as_of)
    early = np.flatnonzero(~late)
    ts = ts[early]
    known = Selected(source, early)
    user, user_ids = ids(known, used["user_id"], known.column(used["user_id"]))
    item, item_ids = ids(known, used["item_id"], known.column(used["item_id"]))
    event, names = _events(known, used.get("event"))
    weight = _weights(known, used.get("weight"))
    good, dropped = _sifted(
        [
            ("no user", user < 0),
            ("no item", item < 0),
            ("no time", np.isnan(ts)),
            ("no event", event < 0),
            (f"user longer than {MAX_ID_BYTES} bytes", too_long(user, user_ids)),
            (f"item longer than {MAX_ID_BYTES} bytes", too_long(item, item_ids)),
            (f"event longer than {MAX_ID_BYTES} bytes", too_long(event, names)),
            ("before 1970", ts < 0),
            ("after 7 February 2106, the end of the store's clock", ts >= LAST_SECOND),
            ("weight missing or not finite", ~np.isfinite(weight)),
            ("weight zero or negative (returns)", weight <= 0),
            (f"weight above {HEAVIEST:g}", weight > HEAVIEST),
        ]
    )
    dropped = count([("at or after as-of", int(late.sum()))]) | dropped
    if not good.any():
        reasons = ", ".join(f"{n:,}: {why}" for why, n in dropped.items())
        raise source.error(f"no row remains ({reasons}). Expected at least one.")
    rows = np.flatnonzero(good)
    rows = rows[np.argsort(ts[rows], kind="stable")]
    ts, weight = ts[rows], weight[rows]
    user, user_ids = compact(user[rows], user_ids)
    item, item_ids = compact(item[rows], item_ids)
    event, names = compact(event[rows], names)
    further = [column for column in source.names if column not in used.values()]
    kept = Selected(source, early[rows])
    extra = attach(kept, further, mapping, Groups(item, len(item_ids)), Groups(user, len(user_ids)))
    report = Report(
        source.file,
        source.rows,
        len(rows),
        dropped,
        used | extra.used,
        extra.ignored,
        (float(ts[0]), float(ts[-1])),
        len(user_ids),
        len(item_ids),
        dict(zip(names, np.bincount(event).tolist(), strict=True)),
        (*_notes(ts), *extra.notes),
    )
    return Interactions(
        user,
        item,
        ts,
        event.astype(np.int16),
        weight,
        user_ids,
        item_ids,
        names,
        Entities(user_ids, extra.users),
        Entities(item_ids, extra.items),
        report,
    )


def _events(source: Source, name: str | None) -> tuple[NDArray[np.int32], list[str]]:
    if name is None:
        return np.zeros(source.rows, np.int32), [DEFAULT_EVENT]
    codes, names = events(source, name, source.column(name))
    if source.rows and not names:
        raise source.error("is empty. Expected kinds of event; --map event= leaves the column out.", column=name)
    if len(names) > MOST_EVENTS:
        message = f"has {len(names):,} different values, too many for kinds of event. Expected at most"
        raise source.error(f"{message} {MOST_EVENTS}; --map event= ignores it.", column=name)
    return codes, names


def _weights(source: Source, name: str | None) -> NDArray[np.float32]:
    if name is None:
        return np.ones(source.rows, np.float32)
    numbers = weights(source, name, source.column(name))
    if source.rows and np.isnan(numbers).all():
        raise source.error("is empty. Expected numbers; --map weight= leaves the column out.", column=name)
    return numbers


def _sifted(reasons: list[tuple[str, NDArray[np.bool_]]]) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Which rows no reason drops, and the rows that each drops first."""
    good = np.ones(len(reasons[0][1]), bool)
    counts = []
    for why, bad in reasons:
        counts.append((why, int((good & bad).sum())))
        good &= ~bad
    return good, count(counts)


def compact(codes: NDArray[np.int32], names: list[str]) -> tuple[NDArray[np.int32], list[str]]:
    """The codes counted anew over the names that occur, whose order stays."""
    occurs = np.zeros(len(names), bool)
    occurs[codes] = True
    new = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    return new[codes], [names[i] for i in np.flatnonzero(occurs).tolist()]


def _notes(ts: NDArray[np.float64]) -> tuple[str, ...]:
    if ts[-1] < 1e8:
        return ("every timestamp lies before March 1973: are they epoch seconds?",)
    ahead = int((ts > time.time() + DAY).sum())
    return (f"{ahead:,} rows lie more than a day after now: are the times right?",) if ahead else ()
