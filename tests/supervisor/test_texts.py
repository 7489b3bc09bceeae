"""What UTF-8 and JSON have no form for travels escaped, or comes back as an error at once."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from app.supervisor.handle import WorkerBug
from app.supervisor.messages import HEAD, LONGEST, Failed, Reply, frame
from app.texts import all_encodable, encodable, in_utf8
from tests.supervisor.conftest import fleet_of


def test_a_byte_of_a_file_name_and_half_a_pair_are_escaped() -> None:
    assert encodable("a\udcff б \ud800") == r"a\xff б \ud800"
    assert all_encodable({"\udcff": ["\udcff", 1, None]}) == {r"\xff": [r"\xff", 1, None]}


def test_a_path_that_is_not_utf_8_is_told_from_others(tmp_path: Path) -> None:
    assert in_utf8(tmp_path / "б")
    assert not in_utf8(Path(os.fsdecode(bytes(tmp_path) + b"/\xff")))


def test_a_message_travels_with_its_texts_escaped() -> None:
    body = frame(Failed("configs/\udcff.yaml: no"))[HEAD.size :]
    assert json.loads(body) == {"type": "failed", "words": r"configs/\xff.yaml: no"}
    assert json.loads(frame(Reply(7, {"errors": ["\udcff"]}))[HEAD.size :])["result"] == {"errors": [r"\xff"]}


def test_a_message_that_is_too_long_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="Expected at most"):
        frame(Failed("x" * (LONGEST + 1)))


def test_a_reply_that_cannot_be_encoded_is_an_error_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 1) as place, asyncio.timeout(30):
            await place.fleet.start()
            [worker] = place.fleet.workers
            with pytest.raises(WorkerBug, match="RecursionError"):
                await worker.call("endless")
            assert await worker.call("odd") == {"name": r"\xff"}
            assert await place.ask() == worker.pid

    asyncio.run(work())
