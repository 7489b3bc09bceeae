"""Whatever goes wrong in a push, workers stay on what was committed, and a person is told."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from app.push import crew
from app.push.pusher import PushRefused
from tests.push.fakes import QUICK, FakeFleet, happens, served


def test_a_configuration_that_kills_who_loads_it_kills_one_worker(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.write("crash")
        [said] = await pusher.push()
        assert said == "A worker that tried it has ended. Push again if that had another cause."
        assert len(fleet.workers) == 3
        assert fleet.spawn() is not None
        fleet.finish_starting()
        assert served(fleet) == {("one", "r1")}

    asyncio.run(main())


def test_a_bug_in_loading_is_told_and_the_worker_replaced(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.write("bug")
        [said] = await pusher.push()
        assert said == "Loading it failed by a bug, and the log has the traceback: KeyError: 'x'."
        assert len(fleet.workers) == 3
        assert served(fleet) == {("one", "r1")}

    asyncio.run(main())


def test_a_bug_of_the_push_itself_leaves_all_where_they_were(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.write("two")

        def fail() -> None:
            if (1, "reload") in fleet.calls:
                fleet.disturb = lambda: None
                raise RuntimeError("a bug")

        fleet.disturb = fail
        with pytest.raises(RuntimeError):
            await pusher.push()
        assert served(fleet) == {("one", "r1")}
        assert pusher.outcomes == {"failed": 1}
        assert pusher.status()["doing"] == "idle"

    asyncio.run(main())


def test_a_worker_that_never_finishes_loading_is_replaced(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.write("hang")
        slow = crew.Crew(fleet, fleet.configs, patience=0.0)
        worker, pin = fleet.workers[0], await fleet.pusher().start()
        assert await slow.load(worker, pin, trusted=False) == [
            "The worker in slot 0 hasn't loaded it within 0 s. It is replaced."
        ]
        assert not worker.alive
        assert pusher.committed != pin

    asyncio.run(main())


def test_without_a_ready_worker_nothing_is_tried_and_files_are_tried_again(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.kill_ready()
        fleet.write("two")
        [said] = await pusher.push()
        assert said == "No worker was ready to try it within 30 s. The log says why; push again."
        fleet.fill()
        await pusher.look()
        await pusher.look()
        assert served(fleet) == {("two", "r1")}

    asyncio.run(main())


def test_callers_that_wait_share_a_push_and_one_that_leaves_stops_nothing(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        fleet.write("two")
        leaving = asyncio.create_task(pusher.push())
        await happens(lambda: pusher.status()["doing"] != "idle")
        waiting = [asyncio.create_task(pusher.push()) for _ in range(20)]
        await asyncio.sleep(0)
        leaving.cancel()
        assert await asyncio.gather(*waiting) == [[]] * 20
        assert served(fleet) == {("two", "r1")}
        assert pusher.outcomes == {"committed": 1, "unchanged": 1}

    asyncio.run(main())


def test_files_that_keep_changing_are_refused_and_followed_later(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        writing = True

        def write() -> None:
            if writing:
                fleet.write(f"half {fleet.now}")

        fleet.disturb = write
        [said] = await pusher.push()
        assert said == f"{fleet.configs}: The files keep changing. Expected them to stay as they are for 200 ms."
        writing = False
        fleet.write("whole")
        await pusher.look()
        await pusher.look()
        assert served(fleet) == {("whole", "r1")}

    asyncio.run(main())


def test_a_start_without_a_folder_says_what_is_expected(tmp_path: Path) -> None:
    fleet = FakeFleet(tmp_path)
    shutil.rmtree(fleet.configs)
    with pytest.raises(PushRefused, match=r"There is no such directory. Expected one with service\.yaml"):
        asyncio.run(fleet.pusher().start())


def test_a_disk_that_takes_nothing_refuses_the_push(fleet: FakeFleet) -> None:
    (fleet.root / "pins").write_text("in the way")
    with pytest.raises(PushRefused, match=rf"^{fleet.root / 'pins'}: can't be written: "):
        asyncio.run(fleet.pusher().start())


def test_a_bug_in_a_round_doesnt_end_the_following(
    fleet: FakeFleet, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        rounds = 0

        def fail() -> None:
            nonlocal rounds
            rounds += 1
            if rounds == 1:
                raise RuntimeError("a bug")

        look = pusher.look

        async def buggy() -> None:
            fail()
            await look()

        pusher.look = buggy  # type: ignore[method-assign]  # the only way to a bug that isn't there
        following = asyncio.create_task(pusher.run())
        await happens(lambda: rounds >= 3)
        following.cancel()
        assert "bug while following" in caplog.text

    asyncio.run(main())


def test_a_worker_that_cannot_read_its_pinned_folder_names_that_one(fleet: FakeFleet) -> None:
    async def main() -> None:
        pusher = await fleet.started(**QUICK)
        folder = pusher.committed.folder
        said = f"{folder}/scenes/home.yaml: The file is missing."
        assert pusher.shown(said) == f"{fleet.configs}/scenes/home.yaml: The file is missing."
        (folder / "scenes" / "home.yaml").unlink()
        shown = pusher.shown(said)
        assert shown == f"{said}\n{folder}: isn't what was pushed any more. Push again, which writes it anew."

    asyncio.run(main())
