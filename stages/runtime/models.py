"""Ranking models on ONNX Runtime: signature checks, warm-up, and inputs assembled from columns.

Two shapes of model: `features` (one f32[n, F] matrix, the named columns in order), or `inputs` (a user side of
one row, an item side of n rows, and the vectors of the user's recent items), whose user side is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import onnxruntime

from expression import Strings
from stages.errors import ReleaseError
from stages.types import F32, Candidates, Column, View

GOLDEN_ERROR = 1e-4
WARM_ROWS = (1, 2, 20, 100, 300, 500, 1000)


class Assemble(Protocol):
    """Builds a model's inputs from a batch."""

    needs: frozenset[str]

    def __call__(self, view: View, batch: Candidates) -> dict[str, F32]:
        """Input arrays by name."""

    def blank(self, n: int) -> dict[str, F32]:
        """Inputs of zeros for n candidates, for warming up."""


class Features:
    """One matrix f32[n, F]: each named column (a vector column takes d places), in order.

    Item scalars that lie resident are packed side by side at load, so that a request gathers them with one take.
    A missing value (no channel, no user attribute) is NaN: trees take it as such.
    """

    def __init__(self, names: Sequence[str], widths: Mapping[str, int], resident: Mapping[str, Column]) -> None:
        self.names = tuple(names)
        self.needs = frozenset(names)
        places: list[tuple[str, int, int]] = []
        packed: list[tuple[int, np.ndarray[Any, Any]]] = []
        at = 0
        for name in names:
            width = widths.get(name, 1)
            column = resident.get(name)
            if column is not None and width == 1 and isinstance(column, np.ndarray):
                packed.append((at, column))
            else:
                places.append((name, at, width))
            at += width
        self.width = at
        self._places = places
        self._alone = len(places) == 1 and not packed
        self._packed = _pack(packed, at)

    def __call__(self, view: View, batch: Candidates) -> dict[str, F32]:
        """{"features": f32[n, F]}. O(n F)."""
        n = len(batch)
        if self._alone:
            return {"features": np.ascontiguousarray(_as_matrix(batch[self._places[0][0]], n, self.width))}
        if self._packed is None:
            matrix = np.empty((n, self.width), np.float32)
        else:
            matrix = self._packed.take(batch.rows, axis=0)
        for name, at, width in self._places:
            value = batch[name]
            if width == 1:
                matrix[:, at] = np.nan if value is None else value.codes if isinstance(value, Strings) else value
            else:
                matrix[:, at : at + width] = np.nan if value is None else value
        return {"features": matrix}

    def blank(self, n: int) -> dict[str, F32]:
        """Zeros."""
        return {"features": np.zeros((n, self.width), np.float32)}


def _pack(columns: Sequence[tuple[int, np.ndarray[Any, Any]]], width: int) -> F32 | None:
    """Resident scalars as one matrix over all rows of the release, each in its place; None when there are none."""
    if not columns:
        return None
    matrix = np.zeros((len(columns[0][1]), width), np.float32)
    for at, column in columns:
        matrix[:, at] = column
    matrix.setflags(write=False)
    return matrix


def _as_matrix(value: Any, n: int, width: int) -> F32:
    if value is None:
        return np.full((n, width), np.nan, np.float32)
    array = np.asarray(value.codes if isinstance(value, Strings) else value, np.float32)
    if array.shape == (n, width):
        return array
    return np.broadcast_to(array if array.ndim == 2 else array.reshape(-1, width), (n, width))


def _never_missing(column: Column | None) -> bool:
    """Whether a resident column has no NaN. O(rows), once at load; an unknown column may have one."""
    if column is None or isinstance(column, Strings):
        return column is not None
    return column.dtype.kind != "f" or not np.isnan(column.min(initial=0.0))  # a NaN is the minimum of anything


class SplitInputs:
    """`user` f32[1, U], `item` f32[n, I] and `history` f32[m, d]: what does not depend on the item is computed once."""

    def __init__(
        self,
        user: Sequence[str],
        item: Sequence[str],
        history: tuple[str, str] | None,
        widths: Mapping[str, int],
        resident: Mapping[str, Column],
    ) -> None:
        self._user: list[tuple[str, slice]] = []
        self._width = 0
        for name in user:
            self._user.append((name, slice(self._width, self._width + widths.get(name, 1))))
            self._width = self._user[-1][1].stop
        self._item = Features(item, widths, resident)
        self._whole = all(_never_missing(resident.get(name)) for name in item)
        self._history = history
        if history is not None and history[0] not in resident:
            raise ReleaseError(f"A history gathers {history[0]}. Expected a resident column.")
        self._vectors = None if history is None else resident[history[0]]
        self._depth = 0 if history is None else widths[history[0]]
        self.needs = frozenset((*user, *item, *(history[1:] if history else ())))

    def __call__(self, view: View, batch: Candidates) -> dict[str, F32]:
        """A missing value is 0 (a network has no branch for NaN); an empty history is one row of zeros."""
        item = self._item(view, batch)["features"]
        inputs = {"item": item if self._whole else np.where(np.isnan(item), np.float32(0), item)}
        if self._user:
            user = inputs["user"] = np.zeros((1, self._width), np.float32)
            for name, place in self._user:
                value = view.get(name)
                if value is not None:
                    user[0, place] = value
        if self._history is not None:
            inputs["history"] = self._recent(view)
        return inputs

    def _recent(self, view: View) -> F32:
        assert self._history is not None
        assert isinstance(self._vectors, np.ndarray)
        history = view.get(self._history[1])
        known = None if history is None else history.known()
        if known is None or not len(known):
            return np.zeros((1, self._depth), np.float32)
        vectors: F32 = np.take(self._vectors, known.rows, axis=0)
        vectors = vectors[~np.isnan(vectors[:, 0])]  # one item without a vector would make every score NaN
        return vectors if len(vectors) else np.zeros((1, self._depth), np.float32)

    def blank(self, n: int) -> dict[str, F32]:
        """Zeros; a history of one item."""
        inputs = {"item": np.zeros((n, self._item.width), np.float32)}
        if self._user:
            inputs["user"] = np.zeros((1, self._width), np.float32)
        if self._history is not None:
            inputs["history"] = np.zeros((1, self._depth), np.float32)
        return inputs


@dataclass(frozen=True)
class OnnxModel:
    """A model ready to score. `cost_ms` is the median time of 300 candidates, measured by `load`."""

    name: str
    heads: tuple[str, ...]
    assemble: Assemble
    session: Any
    cost_ms: float

    @property
    def needs(self) -> frozenset[str]:
        """Columns that its inputs are made of."""
        return self.assemble.needs

    def score(self, view: View, batch: Candidates) -> Mapping[str, F32]:
        """f32[n] for each head."""
        return self._heads(self.assemble(view, batch))

    def _heads(self, inputs: dict[str, F32]) -> dict[str, F32]:
        outputs = self.session.run(self.heads, inputs)
        return {head: out.reshape(-1) for head, out in zip(self.heads, outputs, strict=True)}


def open_session(path: Path) -> Any:
    """A session with one thread and no spinning, on the CPU. Loaded from the path: from bytes stalls longer."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def load_model(path: Path, name: str, heads: Sequence[str], assemble: Assemble) -> OnnxModel:
    """Open, check the signature, warm every batch shape, measure. ReleaseError when the signature differs."""
    session = open_session(path)
    _check_signature(name, session, heads, assemble)
    model = OnnxModel(name, tuple(heads), assemble, session, 0.0)
    for rows in WARM_ROWS:
        for head, scores in model._heads(assemble.blank(rows)).items():
            if len(scores) != rows:
                raise ReleaseError(f"Model {name!r}: head {head!r} gives {len(scores)} values for {rows} candidates.")
    inputs, times = assemble.blank(300), []
    for _ in range(9):
        started = perf_counter()
        model._heads(inputs)
        times.append(perf_counter() - started)
    return OnnxModel(name, tuple(heads), assemble, session, sorted(times)[4] * 1e3)


def check_golden(model: OnnxModel, inputs: Mapping[str, F32], outputs: Mapping[str, F32]) -> None:
    """Run what the model was seen to do when it was built. ReleaseError when this machine gives something else."""
    if not inputs:
        return
    found = model._heads(dict(inputs))
    for head, expected in outputs.items():
        error = float(np.abs(found[head] - expected).max(initial=0.0))
        if not error <= GOLDEN_ERROR:
            raise ReleaseError(
                f"Model {model.name!r}: head {head!r} is off by {error:.2g} on its golden inputs. "
                f"Expected at most {GOLDEN_ERROR:g}: the file, or the runtime, isn't the one that it was built with."
            )


def _check_signature(name: str, session: Any, heads: Sequence[str], assemble: Assemble) -> None:
    outputs = [o.name for o in session.get_outputs()]
    missing = [head for head in heads if head not in outputs]
    if missing:
        raise ReleaseError(f"Model {name!r} has no head {missing[0]!r}. Its outputs: {', '.join(outputs)}.")
    for given_input in session.get_inputs():
        if given_input.type != "tensor(float)":
            raise ReleaseError(f"Model {name!r} takes {given_input.type} in {given_input.name!r}. Expected f32.")
    wanted = {key: array.shape[1] for key, array in assemble.blank(1).items()}
    given = {i.name: i.shape[1] if len(i.shape) == 2 else None for i in session.get_inputs()}
    if wanted.keys() != given.keys():
        raise ReleaseError(f"Model {name!r} takes {', '.join(given)}. The configuration gives {', '.join(wanted)}.")
    for key, width in wanted.items():
        if given[key] != width:
            raise ReleaseError(
                f"Model {name!r} takes {given[key]} columns in {key!r}. The configuration lists {width}."
            )
