"""Who has seen what: a record for each request, layer and experiment whose parameter was really read.

`record` only appends to a bounded queue; a thread formats, writes and rotates. When the queue is full or
the disk refuses, records are dropped and counted, and serving goes on.
"""

from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final, Literal

from abtest.decision import Assignment
from abtest.exposure_record import Entry, exposed
from abtest.exposure_sinks import JsonLines, Outcome, ParquetFiles, Sink

# A batch is formatted without a break, during which a request of the same process may have to wait.
_BATCH: Final = 64


class ExposureLog:
    """A bounded queue before a rotated JSON-lines file, or before Parquet files.

    `format="jsonl"`: `path` is the file being written. At `rotate_bytes` it is set aside as
    `stem.<UTC time>.<number>.jsonl`, and only the newest `keep` such files stay. A killed process loses
    what waited in the queue, and at most cuts a line off.

    `format="parquet"` (needs pyarrow): records gather in memory until there are `rotate_rows` of them or the
    first is `rotate_seconds` old; then they become a whole file `stem.<UTC time>.<number>.parquet`. All files
    have one schema. The newest stay that together have at most `keep * rotate_bytes`. A killed process loses
    the records that had gathered and those in the queue; every file that has its name is complete.

    `capacity` is in requests, whose records are queued or dropped together; threads that record at the same
    time may exceed it by one each. `clock` gives epoch seconds. The thread wakes every `interval` seconds, or
    when the queue is half full. Nothing is opened before `start`, `flush` or `close`. `record` may be called
    from any thread, and one thread's records keep their order. Raises ImportError for Parquet without pyarrow.
    """

    def __init__(
        self,
        path: Path,
        capacity: int,
        clock: Callable[[], float],
        *,
        format: Literal["jsonl", "parquet"] = "jsonl",
        rotate_bytes: int = 64 << 20,
        rotate_rows: int = 100_000,
        rotate_seconds: float = 60.0,
        keep: int = 16,
        interval: float = 0.25,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"an exposure log needs room for a record, not {capacity}")
        self._sink: Sink
        if format == "jsonl":
            self._sink = JsonLines(path, clock, rotate_bytes, keep)
        elif format == "parquet":
            self._sink = ParquetFiles(path, clock, rotate_rows, rotate_seconds, keep * rotate_bytes)
        else:
            raise ValueError(f"an exposure log is written as jsonl or parquet, not {format}")
        self._capacity = capacity
        self._interval = interval
        self._queue: deque[Entry] = deque()
        self._wake = Event()
        self._writing = Lock()
        self._counting = Lock()
        self._thread: Thread | None = None
        self._closed = False
        self._ended = False
        self._written = 0
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """How many records were lost: a full queue, a closed log or a disk that refused.

        A write that fails counts as lost whole, though some of it may have reached the disk.
        """
        # A record that was let in while the log was being closed waits in the queue for ever.
        return self._dropped + (self._queued() if self._ended else 0)

    @property
    def written(self) -> int:
        """How many records have reached a file."""
        return self._written

    def __len__(self) -> int:
        """How many records wait, in the queue or for their Parquet file to be full."""
        return 0 if self._ended else self._queued() + self._sink.waiting

    def start(self) -> None:
        """Start the writer thread. Raises RuntimeError when it was started or closed before."""
        if self._thread is not None or self._closed:
            raise RuntimeError("an exposure log starts once")
        self._thread = Thread(target=self._run, name="exposures", daemon=True)
        self._thread.start()

    def record(
        self,
        assignment: Assignment,
        read_params: AbstractSet[str],
        request_id: str,
        scene: str,
        now: float,
        config_id: str,
    ) -> None:
        """Queue a record for each layer that enrolled the request and of whose parameters one was read.

        `read_params` are the parameters that the steps which ran depend on. Controls are recorded as all
        others. `now` is the request's time in epoch seconds. Never blocks on I/O; under a microsecond for
        each record.
        """
        read = frozenset(read_params)
        unread = read.isdisjoint
        for decision in assignment.found:
            bucket = decision[6]
            if bucket is not None and not unread(bucket.values):
                break
        else:
            return
        entry = (now, request_id, scene, config_id, read, assignment.found)
        waiting = len(self._queue)
        if waiting >= self._capacity or self._closed:
            self._drop(len(exposed(entry)))
            return
        self._queue.append(entry)
        if 2 * waiting >= self._capacity and not self._wake.is_set():
            self._wake.set()

    def flush(self) -> None:
        """Hand what waits in the queue to the file; blocks on the disk.

        Parquet: to the rows that gather, which become a file here if there are enough or they are old enough.
        """
        with self._writing:
            if not self._ended:
                self._drain()

    def close(self) -> None:
        """Write what waits, end the thread and close the file; later records are dropped and counted."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        with self._writing:
            if not self._ended:
                self._drain()
                self._count(self._sink.close())
                self._ended = True

    def _run(self) -> None:
        while not self._closed:
            self._wake.wait(self._interval)
            # Cleared before draining: a record that comes meanwhile sets it again.
            if not self._closed:
                self._wake.clear()
            self.flush()

    def _drain(self) -> None:
        queue = self._queue
        while True:
            self._count(self._sink.write([queue.popleft() for _ in range(min(_BATCH, len(queue)))]))
            if not queue:
                break

    def _queued(self) -> int:
        """Records in the queue; O(n)."""
        return sum(len(exposed(entry)) for entry in self._queue.copy())

    def _count(self, outcome: Outcome) -> None:
        written, lost = outcome
        self._written += written
        if lost:
            self._drop(lost)

    def _drop(self, count: int) -> None:
        with self._counting:
            self._dropped += count
