"""Tree to closures: names looked up, kinds checked, constants folded; nothing of it is repeated per call."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from expression.checker import Checker
from expression.kinds import Kind, Run
from expression.parse import parse
from expression.syntax import Name, Parameter, walk

_NO_PARAMETERS: Mapping[str, int | float | bool | str] = MappingProxyType({})


class Expression:
    """A compiled expression. Immutable, and safe to call from several threads.

    `text` is what was compiled, `names` the columns that a call must bring, `params` the experiment
    parameters whose values are built in, `type` the kind of the result: number, bool, str or semver.
    """

    __slots__ = ("_quiet", "_run", "names", "params", "text", "type")

    def __init__(
        self, text: str, kind: Kind, names: frozenset[str], params: frozenset[str], run: Run, quiet: bool
    ) -> None:
        self.text = text
        self.type: Kind = kind
        self.names = names
        self.params = params
        self._run = run
        self._quiet = quiet

    def __repr__(self) -> str:
        return f"Expression({self.text!r}: {self.type})"

    def __call__(self, columns: Mapping[str, Any]) -> Any:
        """Evaluate over `columns`: a column (n rows) or one scalar for each of `names`, more are ignored.

        Returns an array of n rows, or a scalar when every name was one; text results are Strings or a str.
        The result may be an input itself (`item.price` alone), so callers do not write into it. Divisions by
        zero give inf or NaN without a warning. Raises KeyError for a name that is not in `columns`.
        """
        if self._quiet:
            return self._run(columns)
        with np.errstate(all="ignore"):
            return self._run(columns)


def compile_expression(
    text: str,
    schema: Mapping[str, str],
    params: Mapping[str, int | float | bool | str] = _NO_PARAMETERS,
) -> Expression:
    """Compile `text` against `schema`, full name to declared type (`item.price`: `f32`, `buy`: `f32`).

    `params` are the values of the experiment parameters (`recall.vector_k`: 500, no dollar sign); they become
    constants. Raises ExpressionError, with the offset of what is wrong, for whatever is wrong with the text,
    and ValueError when the schema gives a used name a type that does not exist.
    """
    checker = Checker(text, schema, params)
    kind, run = checker.result(parse(text))
    return Expression(text, kind, frozenset(checker.names), frozenset(checker.params), run, not checker.floating)


def names_of(text: str) -> frozenset[str]:
    """Return the names that `text` reads, without knowing a schema; raises ExpressionError if unreadable."""
    return frozenset(node.name for node in walk(parse(text)) if isinstance(node, Name))


def parameters_of(text: str) -> frozenset[str]:
    """Return the experiment parameters (without `$`) that `text` reads; raises ExpressionError likewise."""
    return frozenset(node.name for node in walk(parse(text)) if isinstance(node, Parameter))
