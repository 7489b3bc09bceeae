"""Who has seen what: one JSON line for each request and experiment whose parameter was really read.

`record` only appends to a bounded queue; a thread formats, writes and rotates. When the queue is full or
the disk refuses, records are dropped and counted, and serving goes on.
"""

import json
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final, NamedTuple

from abtest.assign import Assignment, Decision
from abtest.rotation import RotatingFile

_BATCH: Final = 4096
# Made once: `json.dumps` with other separators than its own makes an encoder for every call.
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode


class _Entry(NamedTuple):
    now: float
    request_id: str
    scene: str
    config_id: str
    decision: Decision


class ExposureLog:
    """A bounded queue before a rotated JSON-lines file.

    `path` is the file being written; when it reaches `rotate_bytes` it is set aside under the time that
    `clock` (epoch seconds) tells, and only the newest `keep` such files stay. `capacity` is in records.
    The thread wakes every `interval` seconds, or when the queue is half full. Nothing is opened before
    `start`, `flush` or `close`. `record` may be called from any thread.
    """

    def __init__(
        self,
        path: Path,
        capacity: int,
        clock: Callable[[], float],
        *,
        rotate_bytes: int = 64 << 20,
        keep: int = 16,
        interval: float = 0.25,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"an exposure log needs room for a record, not {capacity}")
        self._file = RotatingFile(path, clock, rotate_bytes, keep)
        self._capacity = capacity
        self._interval = interval
        self._queue: deque[_Entry] = deque()
        self._wake = Event()
        self._writing = Lock()
        self._counting = Lock()
        self._thread: Thread | None = None
        self._closed = False
        self._written = 0
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """How many records were lost: a full queue, a closed log or a disk that refused."""
        return self._dropped

    @property
    def written(self) -> int:
        """How many records have reached the file."""
        return self._written

    def __len__(self) -> int:
        """How many records wait."""
        return len(self._queue)

    def start(self) -> None:
        """Start the writer thread. Raises RuntimeError when it was started or closed before."""
        if self._thread is not None or self._closed:
            raise RuntimeError("an exposure log starts once")
        self._thread = Thread(target=self._run, name="exposures", daemon=True)
        self._thread.start()

    def record(
        self,
        assignment: Assignment,
        read_params: Collection[str],
        request_id: str,
        scene: str,
        now: float,
        config_id: str,
    ) -> None:
        """Queue a record for each layer that enrolled the request and of whose parameters one was read.

        `read_params` are the parameters that the steps which ran depend on (a set is quickest). Controls
        are recorded as all others. `now` is the request's time in epoch seconds. Never blocks on I/O.
        """
        queue = self._queue
        for decision in assignment.decisions:
            bucket = decision.bucket
            if bucket is None or bucket.values.keys().isdisjoint(read_params):
                continue
            waiting = len(queue)
            if waiting >= self._capacity or self._closed:
                self._drop(1)
                continue
            queue.append(_Entry(now, request_id, scene, config_id, decision))
            if 2 * waiting >= self._capacity and not self._wake.is_set():
                self._wake.set()

    def flush(self) -> None:
        """Write what waits; blocks on the disk."""
        with self._writing:
            while self._queue:
                count = min(_BATCH, len(self._queue))
                lines = [_line(self._queue.popleft()) for _ in range(count)]
                try:
                    self._file.write(lines)
                except OSError:
                    self._drop(count)
                else:
                    self._written += count

    def close(self) -> None:
        """Write what waits, end the thread and close the file; later records are dropped and counted."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()
        with self._writing:
            self._file.close()

    def _run(self) -> None:
        while not self._closed:
            self._wake.wait(self._interval)
            # Cleared before draining: a record that comes meanwhile sets it again.
            if not self._closed:
                self._wake.clear()
            self.flush()

    def _drop(self, count: int) -> None:
        with self._counting:
            self._dropped += count


def _line(entry: _Entry) -> bytes:
    """Return one record as a JSON line; ASCII, so that any id survives any reader."""
    decision = entry.decision
    experiment, bucket = decision.experiment, decision.bucket
    fields = {
        "time": entry.now,
        "request_id": entry.request_id,
        "scene": entry.scene,
        "layer": decision.layer.name,
        "experiment": experiment.name if experiment else None,
        "version": experiment.version if experiment else None,
        "bucket": bucket.name if bucket else None,
        "unit_type": decision.layer.unit,
        "unit": decision.unit,
        "layer_slot": decision.slot,
        "bucket_slot": decision.bucket_slot,
        "reason": decision.reason,
        "forced": False,
        "config": entry.config_id,
        "params": sorted(bucket.values) if bucket else [],
    }
    return _ENCODE(fields).encode() + b"\n"
