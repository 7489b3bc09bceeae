"""What a push asks of the workers: the narrow view that the supervisor's fleet fulfils, and tests fake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Start(Protocol):
    """What a worker was started with."""

    @property
    def config(self) -> str:
        """Folder of the configuration."""

    @property
    def release(self) -> str | None:
        """Version of the release, None for the active one."""


class Worker(Protocol):
    """One process. A worker that is replaced has another pid."""

    @property
    def slot(self) -> int:
        """Its number among the living."""

    @property
    def pid(self) -> int:
        """Its process."""

    @property
    def ready(self) -> bool:
        """Whether it has loaded, and serves."""

    @property
    def spec(self) -> Start:
        """What it was started with."""


class Fleet(Protocol):
    """All workers. Who starts is given what was committed last."""

    @property
    def workers(self) -> Sequence[Worker]:
        """Those that serve now."""

    @property
    def starting(self) -> Sequence[Worker]:
        """Those that load what they were started with, and will serve it; not those that are being ended."""

    async def call(self, worker: Any, verb: str, **arguments: Any) -> Mapping[str, Any]:
        """Ask a worker and wait for its reply. Raises WorkerGone, or WorkerBug when the verb raised there.

        `reload {config_dir, release, trusted}` -> {errors}: load aside, check, swap; on errors nothing changes.
        `trusted`: people may be moved between buckets, because another worker has checked that nobody is, or
        because a person goes back to what served before.
        `restore` -> {restored}: swap back to the snapshot before, which is kept until `commit` -> {}.
        `rates` -> {requests, errors, degraded, empty}: answers counted since its snapshot serves.
        `drain` -> {}: answer what is in flight, then end; the fleet starts another.
        """
