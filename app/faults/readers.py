"""Reads answers whole, to see whether any was made of two configurations."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from app.faults.pushes import MARK
from app.faults.stage import Stage

PAUSE = 0.01
TIMEOUT = 5.0


class Reader:
    """Asks one request after the other. `read` counts answers; `mixed` says what was wrong with some.

    A push changes a channel's name and the answers' fields, so each configuration must go with one channel and one
    set of fields, and no two configurations with the same channel.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._known: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        self.read = 0
        self.mixed: list[str] = []

    async def run(self) -> None:
        """Until cancelled."""
        at = 0
        while True:
            users = self._stage.users
            body = {"scene": self._stage.scene, "user_id": users[at % len(users)], "size": 50}
            at += 1
            with contextlib.suppress(OSError, ValueError):
                status, content = await self._stage.server.ask("POST", "/recommend", body, public=True, timeout=TIMEOUT)
                if status == 200:
                    self.look(json.loads(content))
            await asyncio.sleep(PAUSE)

    def look(self, answer: dict[str, Any]) -> None:
        """Check an answer against those before it."""
        self.read += 1
        items = answer["items"]
        fields = {frozenset(item["fields"]) for item in items}
        marks = frozenset(name for item in items for name in item["channels"] if name.startswith(MARK))
        if len(fields) != 1 or len(marks) > 1:
            self.mixed.append(f"{answer['config']}: fields {sorted(map(sorted, fields))}, channels {sorted(marks)}")
            return
        config = answer["config"]
        found = (next(iter(fields)), marks)
        known = self._known.setdefault(config, found)
        shared = [other for other, (_, seen) in self._known.items() if other != config and marks and seen & marks]
        if marks and not known[1]:
            known = self._known[config] = (known[0], marks)
        if found[0] != known[0] or (marks and marks != known[1]) or shared:
            self.mixed.append(
                f"{config}: {sorted(found[0])} {sorted(marks)}, before {sorted(known[0])} {sorted(known[1])}"
            )
