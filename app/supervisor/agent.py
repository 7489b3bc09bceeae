"""The worker's side of the control channel: carries out verbs, gives signs of life, notices the supervisor's end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from app.accept import Peers
from app.supervisor.channel import Channel
from app.supervisor.messages import Beat, Call, Mean, Reply, ToWorker

BEAT_SECONDS = 0.25
LONGEST_ERROR = 10_000
"""Characters of a bug's words; the log has them all."""

Verb: TypeAlias = Callable[..., Awaitable[Mapping[str, Any]]]

logger = logging.getLogger("recserve.worker")


class Agent:
    """Obeys the supervisor. Belongs to the event loop.

    `verbs` are the worker's abilities by name; they may run side by side. `vitals` makes a beat;
    `orphaned` is called when the supervisor is gone. `peers` learns how many connections the others hold.
    """

    def __init__(
        self,
        channel: Channel[ToWorker],
        verbs: Mapping[str, Verb],
        vitals: Callable[[], Beat],
        orphaned: Callable[[], None],
        peers: Peers | None = None,
    ) -> None:
        self._channel = channel
        self._verbs = verbs
        self._vitals = vitals
        self._orphaned = orphaned
        self._peers = peers or Peers()
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Obey until the supervisor is gone."""
        beats = asyncio.create_task(self._beat(), name="heartbeat")
        try:
            while (message := await self._channel.receive()) is not None:
                if isinstance(message, Mean):
                    self._peers.connections = message.connections
                elif isinstance(message, Call):
                    task = asyncio.create_task(self._carry_out(message), name=f"verb {message.verb}")
                    self._running.add(task)
                    task.add_done_callback(self._running.discard)
        finally:
            beats.cancel()
        self._orphaned()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            # A supervisor that doesn't read (stopped, say) is told nothing new, or its mail would pile up here.
            if self._channel.idle:
                self._channel.send(self._vitals())

    async def _carry_out(self, call: Call) -> None:
        verb = self._verbs.get(call.verb)
        if verb is None:
            self._channel.send(Reply(call.id, error=f"there is no verb {call.verb!r}"))
            return
        try:
            # Sent in here: what can't be encoded is a bug like any other, and the caller waits for a reply.
            self._channel.send(Reply(call.id, dict(await verb(**call.arguments))))
        except Exception as error:  # a bug is the caller's to report; the worker serves on
            logger.exception("bug in the verb %s", call.verb)
            self._channel.send(Reply(call.id, error=f"{type(error).__name__}: {error}"[:LONGEST_ERROR]))
