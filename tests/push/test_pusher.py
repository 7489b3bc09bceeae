"""A push goes to all workers or to none; what was committed is what a worker starts with."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.push.fakes import FILE, QUICK, FakeFleet, happens, served


def test_a_push_is_tried_by_a_share_first_and_then_taken_by_all(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.write("two")
        fleet.activate("r2")
        assert await pusher.push() == []
        assert served(fleet) == {("two", "r2")}
        order = [call for call in fleet.calls if call[1] in ("reload", "commit")]
        assert order == [*((slot, "reload") for slot in range(4)), *((slot, "commit") for slot in range(4))]
        tried, rest = fleet.calls.index((0, "reload")), fleet.calls.index((1, "reload"))
        assert (1, "rates") in fleet.calls[tried:rest]
        assert pusher.outcomes == {"committed": 1}
        assert pusher.status()["committed"].endswith("with release r2")
        assert pusher.status()["doing"] == "idle"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("workers", "share", "first"), [(1, 0.25, 1), (2, 0.9, 1), (4, 0.25, 1), (4, 0.5, 2), (4, 0.99, 3), (3, 1.0, 3)]
)
def test_the_share_rounds_up_and_leaves_somebody_to_compare_with(
    tmp_path: Path, workers: int, share: float, first: int
) -> None:
    fleet = FakeFleet(tmp_path, workers)
    fleet.write("one")

    async def main() -> None:
        pusher = await fleet.started(canary=1.0, share=share)
        fleet.write("failing")
        await pusher.push()
        assert [slot for slot, verb in fleet.calls if verb == "reload"] == list(range(first))

    asyncio.run(main())


def test_malformed_configuration_is_refused_with_the_path_that_people_edit(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        before = pusher.committed
        fleet.write("malformed")
        assert await pusher.push() == [f"{fleet.configs}/{FILE}:1 budget: malformed. Expected another."]
        assert pusher.last["errors"] == [f"{fleet.configs}/{FILE}:1 budget: malformed. Expected another."]
        assert (served(fleet), pusher.committed) == ({("one", "r1")}, before)
        assert {path.name for path in (fleet.root / "pins").iterdir()} == {before.digest, "history.json"}

    asyncio.run(main())


def test_a_push_that_fails_more_often_is_rolled_back_and_says_why(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.rate = 500.0
        fleet.write("failing")
        [said] = await pusher.push()
        assert said.startswith("Rolled back after ")
        assert "10.0% of " in said
        assert "failed with it, 0.0% of " in said
        assert served(fleet) == {("one", "r1")}
        assert pusher.outcomes == {"rolled_back": 1}
        assert (0, "restore") in fleet.calls
        fleet.write("two")
        assert await pusher.push() == []
        assert served(fleet) == {("two", "r1")}

    asyncio.run(main())


def test_a_lone_worker_is_compared_with_its_own_past(tmp_path: Path) -> None:
    fleet = FakeFleet(tmp_path, workers=1)
    fleet.write("one")

    async def main() -> None:
        pusher = await fleet.started(canary=5.0)
        for _ in range(5):
            await fleet.sleep(1.0)
            await pusher.look()
        fleet.write("failing")
        [said] = await pusher.push()
        assert said.startswith("Rolled back after ")
        assert served(fleet) == {("one", None)}

    asyncio.run(main())


def test_nobody_waits_for_a_trial_without_traffic(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(canary=10.0)
        fleet.rate = 0.0
        fleet.write("two")
        started = fleet.now
        assert await pusher.push() == []
        assert fleet.now - started < 2.0

    asyncio.run(main())


def test_the_same_content_again_touches_no_worker(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.calls.clear()
        assert await pusher.push() == []
        assert "reload" not in {verb for _, verb in fleet.calls}
        assert pusher.outcomes == {"unchanged": 1}

    asyncio.run(main())


def test_a_release_alone_is_a_push(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.activate("r2")
        assert await pusher.push() == []
        assert served(fleet) == {("one", "r2")}

    asyncio.run(main())


def test_rollback_goes_back_step_by_step_and_a_reload_forward_again(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        for text in ("two", "failing a little less than it might", "three"):
            fleet.write(text)
            await pusher.push()
        assert served(fleet) == {("three", "r1")}
        assert await pusher.rollback() == []
        assert served(fleet) == {("two", "r1")}
        assert await pusher.rollback() == []
        assert served(fleet) == {("one", "r1")}
        [said] = await pusher.rollback()
        assert "Nothing was committed before" in said
        await pusher.look()
        await pusher.look()
        assert served(fleet) == {("one", "r1")}, "what was rolled back isn't pushed again by itself"
        assert await pusher.push() == []
        assert served(fleet) == {("three", "r1")}

    asyncio.run(main())


def test_the_way_back_survives_a_restart_of_the_service(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.write("two")
        assert await pusher.push() == []
        fleet.kill_ready()
        again = await fleet.started(**QUICK)
        assert served(fleet) == {("two", "r1")}
        assert await again.rollback() == []
        assert served(fleet) == {("one", "r1")}

    asyncio.run(main())


def test_a_pinned_copy_that_was_edited_is_no_way_back(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        first = pusher.committed
        fleet.write("two")
        assert await pusher.push() == []
        (first.folder / FILE).write_text("edited")
        [said] = await pusher.rollback()
        assert said == f"{first.folder}: isn't what was pushed any more. Put the files back in {fleet.configs}."
        assert served(fleet) == {("two", "r1")}
        shutil.rmtree(first.folder)
        assert len(await pusher.rollback()) == 1

    asyncio.run(main())


def test_changes_are_followed_once_they_stand_still(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.write("two")
        await pusher.look()
        assert served(fleet) == {("one", "r1")}
        await pusher.look()
        assert served(fleet) == {("two", "r1")}
        fleet.write("malformed")
        for _ in range(5):
            await pusher.look()
        assert pusher.outcomes == {"committed": 1, "refused": 1}, "what was refused isn't tried again by itself"

    asyncio.run(main())


def test_changes_are_left_alone_when_nothing_is_to_be_followed(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(canary=1.0, watch=False)
        fleet.write("two")
        for _ in range(3):
            await pusher.look()
        assert served(fleet) == {("one", "r1")}

    asyncio.run(main())


def test_a_worker_that_was_starting_during_a_push_is_brought_along(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.kill(fleet.workers[3])
        late = fleet.spawn()
        assert late is not None
        fleet.write("two")
        pushing = asyncio.create_task(pusher.push())
        await happens(lambda: [fleet.text(one.serving) for one in fleet.workers] == ["two"] * 3)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not pushing.done(), "it would serve the old configuration after the answer"
        fleet.finish_starting()
        assert await pushing == []
        assert served(fleet) == {("two", "r1")}

    asyncio.run(main())


def test_a_worker_that_starts_with_what_was_rolled_back_is_brought_back_before_the_answer(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.write("two")

        def refuse() -> None:
            if fleet.calls[-1:] == [(1, "reload")]:
                # The first has taken it, it is committed; a worker starts with it, and then the push breaks.
                fleet.disturb = lambda: None
                fleet.kill(fleet.workers[3])
                assert fleet.spawn() is not None
                raise RuntimeError("a bug")

        fleet.disturb = refuse
        pushing = asyncio.create_task(pusher.push())
        await happens(lambda: bool(fleet.starting))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not pushing.done()
        fleet.finish_starting()
        with pytest.raises(RuntimeError):
            await pushing
        assert served(fleet) == {("one", "r1")}

    asyncio.run(main())


def test_a_worker_that_starts_for_too_long_with_the_old_configuration_is_replaced(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.kill(fleet.workers[3])
        late = fleet.spawn()
        assert late is not None
        fleet.write("two")
        assert await pusher.push() == []
        assert not late.alive
        fleet.fill()
        assert served(fleet) == {("two", "r1")}

    asyncio.run(main())
