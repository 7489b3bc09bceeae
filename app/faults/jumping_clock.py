"""A wall clock that jumps, for every Python process that starts with this as its `sitecustomize`.

The kernel's real-time clock is everybody's, so it is left alone: `time.time` and `time.time_ns` are replaced before
anything else is imported, by ones that add an offset which another process writes into a file. Monotonic clocks and
clocks of other languages are untouched, and so is `datetime.now`. Imports nothing of this project.
"""

import mmap
import os
import struct
import time

VARIABLE = "RECSERVE_FAULTS_CLOCK"
"""Names the file: one little-endian f64, in seconds. Beside it each process leaves an empty file NAME.PID."""


def install(path: str) -> None:
    """Replace this process's wall clock."""
    with open(path, "rb") as file:
        shared = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    real, real_ns, offset = time.time, time.time_ns, struct.Struct("<d").unpack_from
    time.time = lambda: real() + offset(shared)[0]
    time.time_ns = lambda: real_ns() + int(offset(shared)[0] * 1e9)
    with open(f"{path}.{os.getpid()}", "wb"):
        pass


if __name__ == "sitecustomize" and VARIABLE in os.environ:
    install(os.environ[VARIABLE])
