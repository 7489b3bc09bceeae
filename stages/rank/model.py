"""Rank by a model's heads, combined by an expression."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from expression import Expression
from stages.errors import InvalidOutput
from stages.registry import Ref, component
from stages.roles import Model, Scorer
from stages.types import F32, Candidates, View


@component("model")
class ModelScorer(Scorer):
    """The value of `score` over the model's heads (and any column); NaN from a model is an invalid output."""

    model: Ref[Model]
    score_: Annotated[Expression, "number"]

    @property
    def needs(self) -> frozenset[str]:
        """The model's features and the expression's columns; heads are the model's own."""
        return self.model.needs | (self.score_.names - frozenset(self.model.heads))

    @property
    def cost_ms(self) -> float:
        """The model's usual time, measured when it was warmed."""
        return self.model.cost_ms

    def score(self, view: View, batch: Candidates) -> F32:
        """One run of the model over all candidates."""
        heads = self.model.score(view, batch)
        value = self.score_({name: heads[name] if name in heads else batch[name] for name in self.score_.names})
        scores = np.asarray(value, np.float32)
        if scores.shape != (len(batch),):  # an expression may be a constant
            scores = np.broadcast_to(scores, (len(batch),))
        if not np.isfinite(scores).all():
            raise InvalidOutput(f"Model {self.model.name}: {int((~np.isfinite(scores)).sum())} scores are not finite.")
        return scores
