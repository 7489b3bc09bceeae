"""Leave out what the request names in `exclude`."""

from __future__ import annotations

import numpy as np

from stages.registry import component
from stages.roles import Filter
from stages.types import Candidates, Mask, View


@component("exclude")
class Exclude(Filter):
    """Keeps items whose rows are not in the request's `exclude`."""

    def keep(self, view: View, batch: Candidates) -> Mask:
        """O((n + m) log m); nothing to do for most requests."""
        if not len(view.excluded):
            return np.ones(len(batch), np.bool_)
        return ~np.isin(batch.rows, view.excluded)
