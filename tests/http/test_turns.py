"""First come, first served, a few at a time; a turn that waits for others' answers is over soon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from app.turns import MOST, Turn, Turns

LONG = 3_600.0


def played(play: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(play(), 30.0)

    asyncio.run(bounded())


async def taken(turns: Turns) -> list[Turn]:
    """All the turns that there are."""
    return [await turns.begin() for _ in range(MOST)]


def test_so_many_have_their_turn_and_the_others_follow_in_order() -> None:
    async def play() -> None:
        turns, began = Turns(longest=LONG), []

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
        turns = Turns(longest=0.01)
        first = await taken(turns)
        await asyncio.sleep(0.05)  # over by time
        second = await taken(turns)
        for turn in first:
            turn.end()
        third = asyncio.create_task(turns.begin())
        await asyncio.sleep(0)
        assert len(turns) == 1
        second[0].end()
        second[0].end()
        (await third).end()
        second[1].end()
        assert len(turns) == 0

    played(play)


def test_whoever_waits_for_something_slow_holds_nobody_up() -> None:
    async def play() -> None:
        turns = Turns(longest=0.001)
        kept = [await turns.begin() for _ in range(50)]  # nobody ends theirs
        for turn in kept:
            turn.end()
        assert len(turns) == 0

    played(play)


@pytest.mark.parametrize("late", [False, True])
def test_a_cancelled_request_takes_no_turn_with_it(late: bool) -> None:
    """`late`: it is cancelled after its turn came, and before it knew."""

    async def play() -> None:
        turns = Turns(longest=LONG)
        held = await taken(turns)
        gone, next_one = (asyncio.create_task(turns.begin()) for _ in range(2))
        await asyncio.sleep(0)
        if late:
            held[0].end()
            gone.cancel()
        else:
            gone.cancel()
            await asyncio.sleep(0)
            held[0].end()
        with suppress(asyncio.CancelledError):
            await gone
        assert gone.cancelled()
        (await next_one).end()
        held[1].end()
        assert len(turns) == 0
        assert len(await taken(turns)) == 2

    played(play)


def test_it_says_how_long_each_waited() -> None:
    async def play() -> None:
        waits: list[float] = []
        turns = Turns(waited=waits.append, longest=LONG)
        held = await taken(turns)
        late = asyncio.create_task(turns.begin())
        await asyncio.sleep(0.02)
        held[0].end()
        (await late).end()
        assert waits[:2] == [0, 0]
        assert waits[2] >= 0.02

    played(play)
