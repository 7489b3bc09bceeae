"""One end of the control channel between the supervisor and a worker: whole messages over a socket pair."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Generic, TypeVar

import msgspec

from app.supervisor.messages import HEAD, LONGEST, FromWorker, ToWorker, frame

T = TypeVar("T")


class Channel(Generic[T]):
    """Sends without waiting, receives messages of the type `T`. Belongs to one event loop."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decoder: msgspec.json.Decoder[T]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = decoder

    @property
    def idle(self) -> bool:
        """Whether the other end has taken all that was sent, so far as this end can know."""
        return self._writer.transport.get_write_buffer_size() == 0

    def send(self, message: ToWorker | FromWorker) -> None:
        """Queue a message; one to a peer that is gone is lost, and `receive` tells of that. Raises as `frame` does."""
        if not self._writer.is_closing():
            self._writer.write(frame(message))

    async def receive(self) -> T | None:
        """The next message, None when the other end is gone. msgspec.DecodeError for what isn't one."""
        try:
            [length] = HEAD.unpack(await self._reader.readexactly(HEAD.size))
            if length > LONGEST:
                raise msgspec.DecodeError(f"a message of {length} bytes")
            body = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, OSError):
            return None
        return self._decoder.decode(body)

    async def flush(self) -> None:
        """Wait until the other end has what was sent, or is gone."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    def close(self) -> None:
        """Close this end, after what is queued."""
        self._writer.close()


async def to_worker(control: socket.socket) -> Channel[FromWorker]:
    """The supervisor's end."""
    return await _open(control, FromWorker)


async def to_supervisor(control: socket.socket) -> Channel[ToWorker]:
    """The worker's end."""
    return await _open(control, ToWorker)


async def _open(control: socket.socket, kind: Any) -> Channel[Any]:
    control.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=control)
    return Channel(reader, writer, msgspec.json.Decoder(kind))
