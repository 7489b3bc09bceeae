"""The one expression language: scores, filters and conditions, read at load and run over columns.

`compile_expression` parses a text, checks its types against a schema and returns an `Expression`, numpy
closures that a request only calls. `Strings` is the column of texts that they, and the feature store, work
on. The room is a leaf: it needs numpy and nothing else of the product.

Numbers are compared as they are and calculated as floats: float32 columns stay float32, integer columns
become float64. None, NaN, an unknown text and an unreadable version are missing: every comparison with a
missing value is false, `!=` and `not in` too; arithmetic with it is NaN (but x ** 0 and 1 ** x are 1, as in
IEEE 754); a missing flag counts as false. `missing(x)` and `has(x)` ask, `coalesce(x, default)` fills.
"""

from expression.compiler import Expression, compile_expression, names_of, parameters_of
from expression.errors import ExpressionError, suggest
from expression.functions import FUNCTIONS
from expression.kinds import Column
from expression.parse import parse
from expression.strings import Strings, Vocabulary
from expression.versions import version_key

__all__ = [
    "FUNCTIONS",
    "Column",
    "Expression",
    "ExpressionError",
    "Strings",
    "Vocabulary",
    "compile_expression",
    "names_of",
    "parameters_of",
    "parse",
    "suggest",
    "version_key",
]
