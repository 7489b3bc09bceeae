"""What the funnel uses of a pinned release, and how it reads what isn't in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from features.reader import UserColumns
from stages.columns import Derived
from stages.types import Column, Rows


class UserReader(Protocol):
    """Reads everything that scenes need of a user, in one round trip."""

    async def read(self, user_id: str | None, *, timeout: float) -> UserColumns:
        """Never raises for an outage: what could not be read stands in `failed`."""


class ItemFetcher(Protocol):
    """Reads live item columns."""

    async def fetch(self, wanted: Mapping[str, Sequence[str]], rows: Rows, *, timeout: float) -> Mapping[str, Column]:
        """The columns wanted of each view, over `rows`, in one round trip. Raises StoreError."""

    def absent(self, names: Sequence[str], n: int) -> Mapping[str, Column]:
        """The same columns when nothing could be read: defaults, else missing."""


class ItemIds(Protocol):
    """The release's item table."""

    def __len__(self) -> int:
        """How many items the release has."""

    def rows(self, ids: Sequence[str]) -> Rows:
        """Rows, -1 for unknown ids."""

    def ids(self, rows: Rows) -> list[str]:
        """Ids of rows."""


@dataclass(frozen=True, slots=True)
class Release:
    """What the funnel uses of the pinned release."""

    version: str
    as_of: float
    items: ItemIds
    resident: Mapping[str, Column]
    derived: Mapping[str, Derived]
