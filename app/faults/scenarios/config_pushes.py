"""Twenty configuration pushes under load, of which every second one is malformed."""

from __future__ import annotations

import asyncio

from app.faults.place import SERVICE, Place
from app.faults.pushes import MALFORMED, valid
from app.faults.readers import Reader
from app.faults.requirements import in_time, no_empty_list, no_error
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import PROCESS_RATE, Stage, staged
from app.faults.timeline import play

CANARY = "500ms"
PUSH_SECONDS = 30.0


async def run(kit: Kit) -> Verdict:
    """Two workers; every valid push changes the answers' first and last step, so that a mixed one shows."""
    async with staged(kit, workers=2, edit=_quick) as stage:
        return await _played(stage)


def _quick(place: Place) -> None:
    """A short trial on the first workers; files are not followed: each push is asked for, and its outcome told."""
    with place.edit(SERVICE) as service:
        service["push"] = {"watch": False, "canary": CANARY}


async def _played(stage: Stage) -> Verdict:
    kit, verdict, place = stage.kit, Verdict(), stage.place
    wrong: list[str] = []
    taken = refused = 0
    file = place.scene(stage.scene)
    original = {name: place.document(name) for name in (SERVICE, file)}

    async def fault() -> None:
        nonlocal taken, refused
        for at, (what, spoil) in enumerate(MALFORMED):
            place.write(file, valid(original[file], at))
            errors = await _push(stage)
            taken += not errors
            wrong.extend(f"valid push {at}: {error}" for error in errors[:1])
            restore = spoil(place, file)
            errors = await _push(stage)
            refused += bool(errors)
            if not errors:
                wrong.append(f"{what} was taken")
            restore()
            kit.say(f"pushed one that is valid, and {what}")

    reader = Reader(stage)
    reading = asyncio.create_task(reader.run())
    try:
        played = await play(stage, verdict, fault, kit.seconds(60.0, 45.0), rate=PROCESS_RATE)
    finally:
        reading.cancel()
        await asyncio.wait([reading])
    pairs = played.result.pairs()
    verdict.note("pushes_taken", taken)
    verdict.note("pushes_refused", refused)
    verdict.note("configurations_seen", len(pairs))
    verdict.note("answers_read_whole", reader.read)
    verdict.must(not wrong, f"valid pushes are taken and malformed ones refused: {'; '.join(wrong)}")
    verdict.must(taken + refused == 2 * len(MALFORMED), f"{taken} taken and {refused} refused")
    verdict.must(
        len(pairs) == len(MALFORMED) + 1, f"{len(pairs)} configurations answered, {len(MALFORMED) + 1} were valid"
    )
    verdict.must(reader.read > 0 and not reader.mixed, f"no mixed answer of {reader.read}: {reader.mixed[:3]}")
    no_error(verdict, played.result)
    no_empty_list(verdict, played.result)
    in_time(verdict, "fault", played.fault, stage.budget)
    return verdict


async def _push(stage: Stage) -> list[str]:
    """Push what the folder holds; the errors."""
    status, content = await stage.server.ask("POST", "/admin/reload", timeout=PUSH_SECONDS)
    return [] if status == 200 else [content.decode(errors="replace")[:300]]


SCENARIO = Scenario(
    "config_pushes",
    "20 pushes under load, of which 10 are malformed",
    "valid ones are taken and malformed ones refused, no error, every answer from one configuration",
    (90.0, 75.0),
    run,
)
