"""A service over a private store behind a proxy, and load on it: what a scenario plays on. Everything ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.config.load import load_config
from app.faults.errors import NotServing
from app.faults.place import SERVICE, Place
from app.faults.proxy import Proxy
from app.faults.scenario import Kit
from app.faults.server import Server
from app.load.plan import Phase, Plan, RequestClass
from app.load.process import LoadProcess
from app.load.requests import recommend_requests
from app.load.result import Result
from features.embedded import EmbeddedStore
from features.manifest import Manifest, read_ids

SEED = 20_261
USERS = 500
SIZE = 20
RATE = 60.0
"""Requests a second of scenarios that aren't about load: well below what one core serves."""
PROCESS_RATE = 40.0
"""The same where a worker starts on the cores that the others serve from."""
PATIENCE = 5.0


class Load:
    """A run of the generator in a process of its own. Times are on the machine's monotonic clock."""

    def __init__(self, process: LoadProcess, plan: Plan) -> None:
        self._process = process
        self._plan = plan
        self.started = 0.0

    async def begin(self) -> None:
        """Wait until it sends."""
        self.started = await asyncio.to_thread(lambda: self._process.started)

    async def until(self, seconds: float) -> float:
        """Wait until so long after its begin; the moment."""
        await asyncio.sleep(self.started + seconds - time.monotonic())
        return time.monotonic()

    async def result(self) -> Result:
        """Wait for the end."""
        return await asyncio.to_thread(self._process.result)


@dataclass(frozen=True, slots=True)
class Stage:
    """All that a scenario can touch. `scene` is the one that is asked for, `budget` its budget in seconds."""

    kit: Kit
    place: Place
    store: EmbeddedStore
    proxy: Proxy
    server: Server
    scene: str
    budget: float
    users: Sequence[str]

    @contextlib.asynccontextmanager
    async def load(
        self,
        *phases: Phase,
        classes: Sequence[RequestClass] = (),
        connections: int = 256,
        opened: int = 16,
    ) -> AsyncIterator[Load]:
        """Load, sending when this yields, ended on leaving. `opened` of at most `connections` from the start."""
        plan = Plan(
            address=self.server.address,
            classes=tuple(classes) or (self.asking("interactive"),),
            phases=phases,
            seed=SEED,
            connections=connections,
            opened=opened,
            timeout=PATIENCE,
        )
        process = await asyncio.to_thread(LoadProcess, plan, self.kit.spare)
        try:
            load = Load(process, plan)
            await load.begin()
            yield load
        finally:
            await asyncio.to_thread(process.close)

    def asking(self, name: str, *, weight: float = 1.0, size: int = SIZE, **more: Any) -> RequestClass:
        """Requests for this stage's scene by its users; `more` are further members of the body."""
        requests = recommend_requests(self.scene, self.users, size=size, **more)
        return RequestClass(name, requests, weight, self.budget)

    async def warm(self, seconds: float = 2.0) -> None:
        """Load that nobody looks at, so that the first window isn't the one in which caches fill. Raises NotServing."""
        async with self.load(Phase("warm", RATE, seconds)) as load:
            warmed = (await load.result()).summary()
        if not warmed.served:
            raise NotServing(f"the service serves nothing: {dict(warmed.outcomes)}: {self.server.last_words()}")


@contextlib.asynccontextmanager
async def staged(
    kit: Kit,
    *,
    workers: int | None = None,
    edit: Callable[[Place], None] = lambda _: None,
    env: Mapping[str, str] | None = None,
    direct: bool = False,
    scene: str | None = None,
    log: Path | None = None,
) -> AsyncIterator[Stage]:
    """Set it all up and end it all.

    workers  None: as many as the service takes by itself
    edit     changes the copied configuration before the service starts
    direct   the service reaches the store without the proxy
    scene    which is asked for; None: `home`, or the first one
    log      of the service
    Raises NotServing, StoreError, ConfigError, OSError.
    """
    place = kit.base.copy(kit.folder)
    file = place.scene(scene)
    store = EmbeddedStore(kit.folder / "store")
    async with contextlib.AsyncExitStack() as ending:
        ending.push_async_callback(asyncio.to_thread, store.stop)
        url = await asyncio.to_thread(store.start)
        proxy = Proxy(url, seed=SEED)
        ending.push_async_callback(proxy.stop)
        port = await proxy.start()
        with place.edit(SERVICE) as service:
            service["store"] = {**service.get("store", {}), "url": url if direct else f"redis://127.0.0.1:{port}/0"}
            if workers is not None:
                service["workers"] = workers
        edit(place)
        config = await asyncio.to_thread(lambda: load_config(place.configs, env=env or {}))
        server = Server(place, log or kit.folder / "service.log", kit.cores, env or {})
        ending.push_async_callback(server.stop)
        await server.start()
        name = str(place.document(file)["scene"])
        stage = Stage(kit, place, store, proxy, server, name, config.scenes[name].budget, users_of(place))
        await stage.warm()
        yield stage


def users_of(place: Place) -> Sequence[str]:
    """Some users of the active release, the same ones every time."""
    release = place.served
    assert release is not None
    ids = read_ids(Manifest.read(place.releases / release, verify=False), "user")
    rng = np.random.default_rng(SEED)
    return ids.ids(np.sort(rng.choice(len(ids), min(USERS, len(ids)), replace=False)).astype(np.int32))
