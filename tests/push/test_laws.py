"""Whatever happens in whichever order: every live worker ends on what was committed, and never on what is broken."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.push.pusher import Pusher
from tests.push.fakes import FakeFleet, served

GOOD, BAD = ("a", "b", "c"), ("malformed", "bug", "crash", "failing")
PUSHES = st.lists(st.sampled_from((*GOOD, *BAD, "rollback", "release", "look", "restart")), min_size=1, max_size=8)
EVENTS = st.lists(st.sampled_from(("", "", "", "", "kill 0", "kill 1", "kill 2", "spawn", "ready")), max_size=80)


def disturbance(fleet: FakeFleet, events: Iterator[str]) -> Callable[[], None]:
    def disturb() -> None:
        what, _, which = next(events, "").partition(" ")
        if what == "kill" and (workers := fleet.workers):
            fleet.kill(workers[int(which) % len(workers)])
        elif what == "spawn":
            fleet.spawn()
        elif what == "ready":
            fleet.finish_starting()

    return disturb


async def calm(fleet: FakeFleet, pusher: Pusher) -> None:
    """Every place is filled, and one round of following has gone by."""
    fleet.disturb = lambda: None
    fleet.fill()
    await pusher.look()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pushes=PUSHES, events=EVENTS)
def test_all_live_workers_end_on_one_committed_pin(pushes: list[str], events: list[str]) -> None:
    async def main(root: Path) -> None:
        fleet = FakeFleet(root, workers=3)
        fleet.write("start")
        fleet.activate("r0")
        pusher = await fleet.started(canary=1.0, watch=False)
        good = {("start", "r0")}
        releases, release = 0, "r0"
        chaos = disturbance(fleet, iter(events))
        for push in pushes:
            before = pusher.committed
            fleet.disturb = chaos
            if push == "rollback":
                earlier = pusher.status()["before"]
                errors = await pusher.rollback()
                assert errors or str(pusher.committed) == earlier
            elif push == "restart":
                fleet.kill_ready()
                fleet.spawn()
                fleet.finish_starting()
                continue
            elif push == "look":
                await pusher.look()
                continue
            else:
                if push == "release":
                    releases += 1
                    release = f"r{releases}"
                    fleet.activate(release)
                else:
                    fleet.write(push)
                text = (fleet.configs / "scenes/home.yaml").read_text()
                errors = await pusher.push()
                if not errors:
                    good.add((text, release))
            if errors:
                assert pusher.committed == before, "what is refused changes nothing"
            assert pusher.status()["doing"] == "idle"
        await calm(fleet, pusher)
        [only] = served(fleet)
        assert only == (fleet.text((str(pusher.committed.folder), None)), pusher.committed.release)
        assert only in good
        assert only[0] not in ("malformed", "bug", "crash")
        fleet.kill_ready()
        fleet.fill()
        assert served(fleet) == {only}, "who starts again loads what was committed"

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(main(Path(root)))
