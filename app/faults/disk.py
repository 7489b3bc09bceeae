"""A small disk that can be filled: a tmpfs where this user may mount one, else a limit on the size of files."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
from collections.abc import Iterable, Iterator
from pathlib import Path

SIZE = 8 << 20
_DETACH = 2  # umount2: also while files are open
_BLOCK = bytes(1 << 16)


class Disk:
    """What is written below `folder` has room until `fill`, and again after `free`."""

    def __init__(self, folder: Path, *, mounted: bool) -> None:
        self.mounted = mounted
        self._ballast = folder / "ballast"
        self._limits: dict[int, tuple[int, int]] = {}

    @property
    def error(self) -> str:
        """What a write to it fails with."""
        return "ENOSPC" if self.mounted else "EFBIG"

    def fill(self, pids: Iterable[int]) -> None:
        """From now on writes fail. `pids`: the processes that write, which a limit is set on where nothing is mounted.

        A limit concerns all their files, sockets and pipes not.
        """
        if self.mounted:
            with self._ballast.open("wb", buffering=0) as file:
                while _written(file.fileno(), _BLOCK) or _written(file.fileno(), b"x"):
                    pass
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                _, hard = before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
                self._limits[pid] = before

    def free(self) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)
        for pid, before in self._limits.items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        self._limits.clear()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """A disk at `folder`, gone on leaving with all that lies there."""
    folder.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    where = os.fsencode(folder)
    mounted = libc.mount(b"recserve-faults", where, b"tmpfs", 0, b"size=%d,mode=700" % SIZE) == 0
    disk = Disk(folder, mounted=mounted)
    try:
        yield disk
    finally:
        disk.free()
        if mounted:
            libc.umount2(where, _DETACH)


def _written(descriptor: int, data: bytes) -> bool:
    """Whether there was room for some of it."""
    try:
        return os.write(descriptor, data) > 0
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return False
        raise
