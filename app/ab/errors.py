"""What can go wrong in `recserve ab`, for a person to read."""

from __future__ import annotations


class AbError(Exception):
    """What was asked for isn't done; str() says why and what to do."""
