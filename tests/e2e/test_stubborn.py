"""What an extension leaves running doesn't keep the service from ending."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.shop import Shop
from tests.service import Place, alive, serving
from tests.waiting import until

STUBBORN = '''"""A channel that can't be told to stop."""

import asyncio
import threading

from recserve.sdk import NO_HITS, Hits, Recaller, View, component

TASKS = []


async def for_ever() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            print("I don't care", flush=True)


@component("stubborn")
class Stubborn(Recaller):
    async def recall(self, view: View) -> Hits:
        TASKS.append(asyncio.create_task(for_ever()))
        threading.Thread(target=threading.Event().wait).start()
        print("it began", flush=True)
        await for_ever()
        return NO_HITS
'''


@pytest.mark.parametrize("signals", [1, 2])
def test_a_task_that_ignores_cancellation_does_not_hold_the_end(
    fresh: Callable[[], Place], tmp_path: Path, shop: Shop, signals: int
) -> None:
    (tmp_path / "stubborn_channels.py").write_text(STUBBORN)
    place = fresh()
    place.replace("service.yaml", "extensions: []", "extensions: [stubborn_channels]")
    place.replace("scenes/home.yaml", "recall:\n", "recall:\n  stubborn: {}\n")
    with serving(place, env={"PYTHONPATH": str(tmp_path)}) as service:
        store = service.valkey
        assert store is not None
        assert service.ask("home", shop.user_ids[0])["degraded"][0]["reason"] == "timeout"
        assert "it began" in service.text()
        for _ in range(signals):
            with contextlib.suppress(ProcessLookupError):
                os.kill(service.process.pid, signal.SIGTERM)
        assert service.process.wait(10) == 0
        said = service.text()
        assert "left behind" in said
        assert "Traceback" not in said
        until(lambda: not alive(store), "the private store's end")
