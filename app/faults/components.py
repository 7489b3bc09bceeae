"""Models that fail on demand, as an extension: `extensions: [app.faults.components]`, and one line in a scene.

`switch` is the path of a file; while it exists, the component misbehaves.
"""

from __future__ import annotations

import os
import time
from typing import Annotated

import numpy as np

from expression import Expression
from stages.rank.model import ModelScorer
from stages.registry import Ref, component
from stages.roles import Model, Scorer
from stages.types import F32, Candidates, View

_POLL = 0.01


@component("hanging_model")
class HangingModel(Scorer):
    """The scene's own ranker, which doesn't return while the switch is on: what a lock or a dead device looks like.

    `usually` is the time in milliseconds that it claims to take, which decides where it runs; 0: the model's own.
    """

    model: Ref[Model]
    score_: Annotated[Expression, "number"]
    switch: str
    usually: float = 0.0

    @property
    def needs(self) -> frozenset[str]:
        """As the ranker itself."""
        return ModelScorer(self.model, self.score_).needs

    @property
    def cost_ms(self) -> float:
        """What was claimed."""
        return self.usually or self.model.cost_ms

    def score(self, view: View, batch: Candidates) -> F32:
        """Wait while the switch is on."""
        while os.path.exists(self.switch):
            time.sleep(_POLL)
        return ModelScorer(self.model, self.score_).score(view, batch)


@component("nan_model")
class NanModel(Scorer):
    """The scene's own ranker, which returns NaN for every other candidate while the switch is on."""

    model: Ref[Model]
    score_: Annotated[Expression, "number"]
    switch: str

    @property
    def needs(self) -> frozenset[str]:
        """As the ranker itself."""
        return ModelScorer(self.model, self.score_).needs

    @property
    def cost_ms(self) -> float:
        """As the ranker itself."""
        return self.model.cost_ms

    def score(self, view: View, batch: Candidates) -> F32:
        """Every other score is NaN while the switch is on."""
        scores = ModelScorer(self.model, self.score_).score(view, batch)
        if os.path.exists(self.switch):
            scores = scores.copy()
            scores[::2] = np.nan
        return scores
