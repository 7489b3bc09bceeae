"""First come, first served, two at a time; a turn that waits for others' answers is over soon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from app.turns import Turn, Turns

LONG = 3_600.0


def played(play: Callable[[], object]) -> None:
    asyncio.run(asyncio.wait_for(play(), 30.0))  # type: ignore[arg-type]


def test_so_many_have_their_turn_and_the_others_follow_in_order() -> None:
    async def play() -> None:
        turns, began = Turns(most=2, longest=LONG), []

        async def ask(number: int) -> Turn:
            turn = await turns.begin()
            began.append(number)
            return turn

        asked = [asyncio.create_task(ask(number)) for number in range(5)]
        await asyncio.sleep(0)
        assert (began, len(turns)) == ([0, 1], 3)
        for number in (1, 0, 2, 3, 4):
            (await asked[number]).end()
            await asyncio.sleep(0)
        assert (began, len(turns)) == ([0, 1, 2, 3, 4], 0)

    played(play)


def test_a_turn_ends_once() -> None:
    async def play() -> None:
        turns = Turns(most=1, longest=0.01)
        first = await turns.begin()
        await asyncio.sleep(0.05)  # over by time
        second = await turns.begin()
        first.end()
        third = asyncio.create_task(turns.begin())
        await asyncio.sleep(0)
        assert len(turns) == 1
        second.end()
        second.end()
        (await third).end()
        assert len(turns) == 0

    played(play)


def test_whoever_waits_for_something_slow_holds_nobody_up() -> None:
    async def play() -> None:
        turns = Turns(most=2, longest=0.001)
        kept = [await turns.begin() for _ in range(50)]  # nobody ends theirs
        for turn in kept:
            turn.end()
        assert len(turns) == 0

    played(play)


@pytest.mark.parametrize("late", [False, True])
def test_a_cancelled_request_takes_no_turn_with_it(late: bool) -> None:
    """`late`: it is cancelled after its turn came, and before it knew."""

    async def play() -> None:
        turns = Turns(most=1, longest=LONG)
        first = await turns.begin()
        gone, next_one = (asyncio.create_task(turns.begin()) for _ in range(2))
        await asyncio.sleep(0)
        if late:
            first.end()
            gone.cancel()
        else:
            gone.cancel()
            await asyncio.sleep(0)
            first.end()
        with suppress(asyncio.CancelledError):
            await gone
        assert gone.cancelled()
        (await next_one).end()
        assert len(turns) == 0

    played(play)


def test_it_says_how_long_each_waited() -> None:
    async def play() -> None:
        waits: list[float] = []
        turns = Turns(waits.append, most=1, longest=LONG)
        first = await turns.begin()
        second = asyncio.create_task(turns.begin())
        await asyncio.sleep(0.02)
        first.end()
        (await second).end()
        assert waits[0] == 0
        assert waits[1] >= 0.02

    played(play)
