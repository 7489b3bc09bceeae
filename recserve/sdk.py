"""What a component is written with: the roles, what they receive and return, and the decorator that names them.

    from recserve.sdk import Hits, Recaller, Ref, Table, View, component

    @component("fresh")
    class Fresh(Recaller):
        table: Ref[Table]
        k: int = 50

        def recall(self, view: View) -> Hits:
            rows, scores = self.table.slice(0)
            return Hits(rows[: self.k], scores[: self.k])

The class goes into a package named under `extensions:` in service.yaml, and its name into a scene.
"""

from expression import Expression, Strings
from features.history import History
from stages.errors import InvalidOutput
from stages.registry import Duration, Range, Ref, component
from stages.roles import (
    ColumnName,
    Filter,
    HistoryColumn,
    Model,
    PreRanker,
    Recaller,
    Reranker,
    ScalarColumn,
    Scorer,
    Table,
    VectorColumn,
    VectorIndex,
)
from stages.types import NO_HITS, Candidates, Hits, View

__all__ = [
    "NO_HITS",
    "Candidates",
    "ColumnName",
    "Duration",
    "Expression",
    "Filter",
    "History",
    "HistoryColumn",
    "Hits",
    "InvalidOutput",
    "Model",
    "PreRanker",
    "Range",
    "Recaller",
    "Ref",
    "Reranker",
    "ScalarColumn",
    "Scorer",
    "Strings",
    "Table",
    "VectorColumn",
    "VectorIndex",
    "View",
    "component",
]
