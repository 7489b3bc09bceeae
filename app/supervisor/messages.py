"""What supervisor and worker say to each other. A frame: 4 bytes of length (big-endian), then JSON."""

from __future__ import annotations

import socket
import struct
from typing import Any, Literal, TypeAlias

import msgspec

from app.texts import all_encodable

HEAD = struct.Struct(">I")
LONGEST = 64 << 20
"""Bytes of a frame; a longer one is a bug, not a message."""


class Spec(msgspec.Struct, frozen=True, tag="spec"):
    """What a worker is told first.

    slot     its number, the lowest that no living worker has
    config   folder of the configuration; `release`: the version to serve, None for the active one
    store    URL of the store
    now      where the clock stands still, in epoch seconds; None for the real one
    workers  how many there are, which share the clients' rates
    threads  of its compute pool
    early    it takes connections before it is ready: nobody else does, and a probe wants an answer
    drain    seconds for requests in flight when it ends
    exposures  format of its exposure log
    """

    slot: int
    config: str
    var: str
    store: str
    release: str | None = None
    now: float | None = None
    workers: int = 1
    threads: int = 1
    early: bool = True
    drain: float = 10.0
    exposures: Literal["jsonl", "parquet"] = "jsonl"


class Call(msgspec.Struct, frozen=True, tag="call"):
    """A verb that a worker is to carry out; it sends one Reply with the same id."""

    id: int
    verb: str
    arguments: dict[str, Any] = {}


class Mean(msgspec.Struct, frozen=True, tag="mean"):
    """How many connections a worker holds on average, told now and then."""

    connections: float


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """What a call came to; with `error` the verb raised, and the words are for the log."""

    id: int
    result: dict[str, Any] = {}
    error: str | None = None


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One line of `/metrics`; None is NaN, which JSON doesn't have."""

    name: str
    labels: dict[str, str]
    value: float | None


class Family(msgspec.Struct, frozen=True, array_like=True):
    """A metric with its samples; `kind` as Prometheus names it."""

    name: str
    help: str
    kind: str
    samples: list[Sample]


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The worker is loaded and warm, and serves: `config`, `release`, `scenes`, `example_users`."""

    facts: dict[str, Any]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The worker can't start; the words are for the person who has to act."""

    words: str


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """A sign of life, four a second.

    lag        the loop's worst lateness since the last beat, in seconds
    stuck      seconds for which jobs that nobody waits for have held every thread of the compute pool
    rss        resident memory in bytes, mapped files of the release included; `own`: without those
    connections, tasks, fds, threads   how many the process has
    """

    lag: float = 0.0
    stuck: float = 0.0
    in_flight: int = 0
    connections: int = 0
    rss: int = 0
    own: int = 0
    tasks: int = 0
    fds: int = 0
    threads: int = 0


class Bye(msgspec.Struct, frozen=True, tag="bye"):
    """The worker ends, with its last metrics."""

    families: list[Family]


ToWorker: TypeAlias = Spec | Call | Mean
FromWorker: TypeAlias = Reply | Ready | Failed | Beat | Bye


def frame(message: ToWorker | FromWorker) -> bytes:
    """A message as it travels. Values that JSON lacks (paths, dates) travel as text, lone surrogates escaped.

    ValueError, TypeError, OverflowError or RecursionError for what has no such form, or is longer than LONGEST.
    """
    try:
        body = msgspec.json.encode(message, enc_hook=str)
    except UnicodeEncodeError:
        body = msgspec.json.encode(all_encodable(msgspec.to_builtins(message, enc_hook=str)))
    if len(body) > LONGEST:
        raise ValueError(f"a message of {len(body)} bytes. Expected at most {LONGEST}")
    return HEAD.pack(len(body)) + body


def read_spec(control: socket.socket) -> Spec:
    """The first message, read before there is an event loop. EOFError when the supervisor is gone."""
    [length] = HEAD.unpack(_exactly(control, HEAD.size))
    return msgspec.json.decode(_exactly(control, length), type=Spec)


def _exactly(control: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        more = control.recv(size - len(got))
        if not more:
            raise EOFError("the supervisor is gone")
        got += more
    return got
