"""Logging: JSON lines written by a thread of their own, behind a bounded queue that drops and counts.

A log sink that stalls must not stall the event loop. Access records may fill half of the queue only, so
that they never crowd out a warning or a traceback. Bodies are never logged.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from logging.handlers import QueueHandler, QueueListener
from typing import Any, TextIO

import msgspec

from app.texts import all_encodable, encodable

ACCESS = "recserve.access"
_QUEUE_SIZE = 4096
_STOP_SECONDS = 2.0


class JsonLines(logging.Formatter):
    """One JSON object a record: ts, level, logger, message, `fields`, the record's own ones, and a traceback."""

    def __init__(self, fields: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._fields = dict(fields or {})

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line: dict[str, Any] = {
            "ts": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._fields,
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        # A lone surrogate (from a file name, say) must not cost the line.
        return msgspec.json.encode(all_encodable(line), enc_hook=lambda value: encodable(str(value))).decode()


class Throttle(logging.Filter):
    """Of the warnings with one message, lets one pass every `seconds`; it says how many it kept back before."""

    def __init__(self, seconds: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._clock = clock
        self._told: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record."""
        if record.levelno != logging.WARNING:
            return True
        now, message = self._clock(), str(record.msg)
        last, held = self._told.get(message, (now - self._seconds, 0))
        if now - last < self._seconds:
            self._told[message] = (last, held + 1)
            return False
        self._told[message] = (now, 0)
        if held:
            record.msg = f"{message} ({held} more since the last such line)"
        return True


class BoundedQueueHandler(QueueHandler):
    """Hands records to a queue without ever waiting; what finds no room is counted in `dropped`."""

    queue: queue.Queue[Any]

    def __init__(self, size: int = _QUEUE_SIZE) -> None:
        super().__init__(queue.Queue(size))
        self.dropped = 0
        self._access_limit = size // 2

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Leave the record as it is: formatting, tracebacks included, belongs to the writing thread."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue the record, or drop and count it."""
        if record.name == ACCESS and self.queue.qsize() >= self._access_limit:
            self.dropped += 1
            return
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _Sink(logging.StreamHandler[TextIO]):
    """Writes lines; those that the stream didn't take (a full disk, a closed pipe) are counted in `lost`."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.lost = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as logging names it
        """Count the line. What can't be written is told nowhere else; what can't be formatted is a bug, and is."""
        self.lost += 1
        if not isinstance(sys.exc_info()[1], (OSError, ValueError)):
            super().handleError(record)


class _Writer(QueueListener):
    """A listener whose stop takes bounded time, also when the sink is stalled (its thread is a daemon)."""

    queue: queue.Queue[Any]

    def enqueue_sentinel(self) -> None:
        """Ask the thread to end, after what is queued."""
        with contextlib.suppress(queue.Full):
            self.queue.put(None, timeout=_STOP_SECONDS)

    def stop(self) -> None:
        """Write what is queued and end the thread."""
        thread: threading.Thread | None = self._thread
        if thread is not None:
            self.enqueue_sentinel()
            thread.join(_STOP_SECONDS)
            self._thread = None


class LogPipeline:
    """The process's logging. Use as a context manager: it restores the root logger and drains on exit.

    `fields` stand on every line, such as the number of the worker that writes it.
    """

    DROPPED = "Log records lost: the queue was full, or the sink didn't take them."

    def __init__(
        self,
        stream: TextIO | None = None,
        level: int = logging.INFO,
        size: int = _QUEUE_SIZE,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        self.handler = BoundedQueueHandler(size)
        self._level = level
        self._sink = _Sink(stream or sys.stderr)
        self._sink.setFormatter(JsonLines(fields))
        self._listener = _Writer(self.handler.queue, self._sink)
        self._throttle = Throttle()
        self._before: tuple[list[logging.Handler], int] = ([], logging.WARNING)

    @property
    def dropped(self) -> int:
        """Records lost so far: that found no room, or that the sink didn't take."""
        return self.handler.dropped + self._sink.lost

    def __enter__(self) -> LogPipeline:
        root = logging.getLogger()
        self._before = (root.handlers[:], root.level)
        root.handlers[:] = [self.handler]
        root.setLevel(self._level)
        # uvicorn announces every start and stop at INFO, and we say it ourselves.
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        # It warns of every request that isn't HTTP, and whoever sends those can send many.
        logging.getLogger("uvicorn.error").addFilter(self._throttle)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        root.handlers[:], level = self._before[0], self._before[1]
        root.setLevel(level)
        logging.getLogger("uvicorn.error").removeFilter(self._throttle)
        self._listener.stop()


class AccessLog:
    """Writes one of `every` answered requests; 0 writes none."""

    def __init__(self, every: int = 0) -> None:
        self._every = every
        self._count = 0
        self._logger = logging.getLogger(ACCESS)

    def write(self, route: str, status: int, seconds: float, request_id: str) -> None:
        """Log this request if it is its turn."""
        if not self._every:
            return
        self._count += 1
        if self._count % self._every == 0:
            fields: Mapping[str, Any] = {
                "route": route,
                "status": status,
                "ms": round(seconds * 1e3, 3),
                "request_id": request_id,
            }
            self._logger.info("answered", extra={"fields": fields})
