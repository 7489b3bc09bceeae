"""What has served, in order: `history.json` beside the pinned folders, so that a restart forgets no way back."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from app.push.pinned import KEPT, Pin
from features.manifest import replace

NAME = "history.json"

logger = logging.getLogger("recserve.push")


class History:
    """Pins that served, newest last, as many as are kept. Unreadable counts as empty: it only shortens the way back."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.pins = _read(root)
        self._written = list(self.pins)

    def before(self, committed: Pin) -> Pin | None:
        """What served before `committed`, None when nothing is known to have."""
        earlier = self.pins[:-1] if self.pins[-1:] == [committed] else self.pins
        return earlier[-1] if earlier else None

    def remember(self, pin: Pin) -> None:
        """Write down that `pin` serves."""
        if self.pins[-1:] != [pin]:
            self.pins = [*self.pins, pin][-KEPT:]
        if self.pins != self._written:
            self._write()

    def back_to(self, pin: Pin) -> None:
        """Forget what came after `pin`, the last of its kind."""
        self.pins = self.pins[: len(self.pins) - self.pins[::-1].index(pin)]
        self._write()

    def _write(self) -> None:
        listed: list[dict[str, Any]] = [{"config": pin.digest, "release": pin.release} for pin in self.pins]
        try:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace(self._root / NAME, json.dumps(listed, indent=1))
        except OSError as error:
            # A full disk stops no push: what serves is in memory, and the next commit writes it again.
            logger.warning("the history of pushes can't be written: %s", error)
        else:
            self._written = list(self.pins)


def releases_in_use(root: Path) -> set[str]:
    """Releases of the last two pins that served: what serves, and what a rollback would serve."""
    return {pin.release for pin in _read(root)[-2:] if pin.release is not None}


def _read(root: Path) -> list[Pin]:
    try:
        listed = json.loads((root / NAME).read_bytes())
        return [Pin(str(one["config"]), root / str(one["config"]), one["release"]) for one in listed]
    except (OSError, ValueError, KeyError, TypeError):
        return []
