"""Polling for changes worth a push: by content, so that a touched file, a renamed one or a swapped link are alike."""

from __future__ import annotations

from collections.abc import Callable

POLL = 1.0


class Watch:
    """Compares what `signature` says with what was pushed last. Not tied to a clock: somebody calls `look`.

    A change counts when two looks in a row see the same: a person saves several files one after another, and
    a write may pause.
    """

    def __init__(self, signature: Callable[[], str]) -> None:
        self._signature = signature
        self._pushed: str | None = None
        self._before: str | None = None

    def look(self) -> bool:
        """Whether something else than what was pushed last is there, and has been since the look before."""
        now = self._signature()
        changed = now not in (self._pushed, None) and now == self._before
        self._before = now
        return changed

    def pushed(self, signature: str | None) -> None:
        """This has been pushed, or refused: it isn't a change any more. None: whatever is there, push it again."""
        self._pushed = signature
