"""What the HTTP edge asks of the service behind it: the engine, and the operator's view of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from app.wire import Event, Priority
from stages.types import Answer, Request, Scalar


class ContextField(Protocol):
    """A declared context attribute. `type` is one of str, int, float, bool, semver."""

    @property
    def type(self) -> str:
        """The declared type's name."""

    @property
    def default(self) -> Scalar | None:
        """What an absent attribute becomes; None leaves it absent."""


class Scene(Protocol):
    """What the edge needs of a scene."""

    @property
    def budget(self) -> float:
        """Seconds from arrival to answer."""

    @property
    def priority(self) -> Priority:
        """The class of its requests that don't say one themselves."""


class Snapshot(Protocol):
    """The configuration and release that serve now. Immutable; replaced by one reference."""

    @property
    def config_id(self) -> str:
        """Digest of the configuration."""

    @property
    def release(self) -> str:
        """Version of the release."""

    @property
    def scenes(self) -> Mapping[str, Scene]:
        """Scenes by name."""

    @property
    def context(self) -> Mapping[str, ContextField]:
        """Declared context attributes by name."""


class Engine(Protocol):
    """The funnel, seen from the edge."""

    @property
    def snapshot(self) -> Snapshot:
        """What serves now. Only read while `ready`."""

    @property
    def ready(self) -> bool:
        """Whether everything is loaded and warm."""

    async def recommend(self, request: Request) -> Answer:
        """Answer one request. Pins the snapshot before its first await."""

    async def record(self, events: Sequence[Event]) -> None:
        """Store events, all or none. Raises Problem when one isn't declared, StoreError when not stored."""

    def status(self) -> Mapping[str, Any]:
        """State for people. `waiting_for`, a list of strings, says what readiness waits for."""


class Operator(Protocol):
    """What an operator may see and do."""

    def workers(self) -> tuple[int, int]:
        """How many workers serve, and how many there should be."""

    def waiting_for(self) -> Sequence[str]:
        """Why no worker serves; empty when one does and no drain has begun."""

    async def metrics(self) -> bytes:
        """The figures of all processes in the Prometheus text format."""

    async def status(self) -> Mapping[str, Any]:
        """Configuration, release, workers, last reload and its errors, queues, store."""

    async def config(self) -> Mapping[str, Any]:
        """The resolved configuration. Secrets are masked by the edge."""

    async def reload(self) -> Sequence[str]:
        """Have the configuration on disk served. The errors; empty when it serves now."""

    async def rollback(self) -> Sequence[str]:
        """Have the configuration served that served before. The errors; empty when it serves now."""
