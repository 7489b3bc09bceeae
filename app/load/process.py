"""The generator in a process of its own: on other cores than what it loads, while the caller does other things.

The plan goes in through a pipe, progress and the result come back through another. Either end notices when the
other is gone: a generator whose caller was killed ends within a second.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import BinaryIO

import msgspec

from app.load.generator import Progress, Tick, run
from app.load.plan import Plan
from app.load.result import Result

_HEAD = struct.Struct("!cI")
_PROGRESS, _RESULT = b"p", b"r"
# Beyond the run itself: for starting the interpreter, and for handing over the samples of a long run.
_GRACE = 30.0
_MODULE = "app.load.process"


class LoadFailed(Exception):
    """The generator's process ended, or said nothing for too long, before it had a result."""


def spare_cores(busy: Iterable[int]) -> frozenset[int]:
    """This process's cores without the busy ones; empty when there are no others."""
    return frozenset(os.sched_getaffinity(0)) - frozenset(busy)


class LoadProcess:
    """A run that has begun elsewhere. A context manager: leaving it ends the process.

    `cores` are those it is pinned to; empty for wherever the scheduler puts it.
    """

    def __init__(self, plan: Plan, cores: frozenset[int] = frozenset()) -> None:
        self._last: Progress | None = None
        self._result: Result | None = None
        self._until = time.monotonic() + plan.longest + _GRACE
        # Its own session: a terminal's Ctrl-C is for the caller, which then ends this.
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._output = self._process.stdout
        try:
            if cores:
                os.sched_setaffinity(self._process.pid, cores)
            with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
                pipe.write(msgspec.msgpack.encode(plan))
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The generator's process."""
        return self._process.pid

    @property
    def started(self) -> float:
        """When the run's time 0 was, on the monotonic clock. Waits for it. Raises LoadFailed."""
        while self._last is None:
            self._frame()
        return self._last.started

    @property
    def elapsed(self) -> float:
        """Seconds of the run so far, on this process's clock. Waits for its start. Raises LoadFailed."""
        return time.monotonic() - self.started

    def result(self, tick: Tick | None = None) -> Result:
        """Wait for the end, at most `Plan.longest` and some seconds for the process. Raises LoadFailed."""
        while self._result is None:
            self._frame()
            if tick is not None and self._last is not None and self._result is None:
                tick(self._last)
        return self._result

    def close(self) -> None:
        """End the process, in the middle of its run if need be."""
        self._process.kill()
        self._process.wait()
        self._output.close()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def __enter__(self) -> LoadProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _frame(self) -> None:
        """Take one frame."""
        kind, length = _HEAD.unpack(self._read(_HEAD.size))
        content = self._read(length)
        if kind == _RESULT:
            self._result = Result.unpack(content)
        else:
            self._last = msgspec.msgpack.decode(content, type=Progress)

    def _read(self, count: int) -> bytes:
        descriptor = self._output.fileno()
        parts = bytearray()
        while len(parts) < count:
            ready = select.select([descriptor], [], [], max(self._until - time.monotonic(), 0.0))[0]
            if not ready:
                raise LoadFailed("the load generator had no result in time")
            chunk = os.read(descriptor, min(count - len(parts), 1 << 20))
            if not chunk:
                raise LoadFailed(f"the load generator ended early (status {self._process.wait()})")
            parts += chunk
        return bytes(parts)


def run_elsewhere(plan: Plan, tick: Tick | None = None, cores: frozenset[int] = frozenset()) -> Result:
    """`generator.run` in a process of its own. Raises LoadFailed."""
    with LoadProcess(plan, cores) as load:
        return load.result(tick)


def main(source: BinaryIO, sink: BinaryIO) -> int:
    """The process's side: a plan from `source`, frames to `sink`; the exit status."""
    plan = msgspec.msgpack.decode(source.read(), type=Plan)

    def send(kind: bytes, content: bytes) -> None:
        sink.write(_HEAD.pack(kind, len(content)) + content)
        sink.flush()

    gc.freeze()
    try:
        result = run(plan, lambda progress: send(_PROGRESS, msgspec.msgpack.encode(progress)))
        send(_RESULT, result.pack())
    except BrokenPipeError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.stdin.buffer, sys.stdout.buffer))
