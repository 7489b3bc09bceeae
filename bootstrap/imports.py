"""History into the store: what users did before bootstrap, written whole, so that doing it again changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from bootstrap.dataset import Dataset
from features.behaviour import Behaviour, event_codes
from features.commands import Commands


async def import_history(data: Dataset, commands: Commands, progress: Callable[[int], None]) -> int:
    """Write every user's history; `progress` gets the number of users done. Raises StoreError."""

    def users() -> Iterator[tuple[str, NDArray[np.void]]]:
        for row, user_id in enumerate(data.user_ids):
            records = data.records(row)
            if len(records):
                yield user_id, records

    behaviour = Behaviour(commands, event_codes(data.found.events))
    await behaviour.import_history(users(), progress=progress)
    return int(np.count_nonzero(np.diff(data.bounds)))
