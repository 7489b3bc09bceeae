"""The type checker: one method per node of the tree, each returns the node's kind and its closure."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from expression.errors import ExpressionError, suggest
from expression.functions import FILL, FUNCTIONS, MISSING, choose
from expression.kinds import Kind, Run, as_float, is_float, kind_of, load
from expression.operators import ARITHMETIC, COMPARISONS, member, negate, truth
from expression.syntax import Arithmetic, Call, Compare, Literal, Logic, Member, Name, Node, Parameter, Unary
from expression.versions import version_key

_LONGEST_QUOTE = 60


@dataclass(frozen=True, slots=True)
class Typed:
    """A checked node. `raw` is a name as it was given, which may be an integer column or a missing flag."""

    node: Node
    kind: Kind
    run: Run
    raw: bool = False
    constant: bool = False


def _always(value: Any) -> Run:
    return lambda _columns: value


class Checker:
    """Checks one text against a schema and parameter values; `names`, `params` and `floating` fill up.

    `floating` says that the closures do float work, whose warnings have to be silenced.
    """

    def __init__(self, text: str, schema: Mapping[str, str], params: Mapping[str, Any]) -> None:
        self._text = text
        self._schema = schema
        self._values = params
        self.names: set[str] = set()
        self.params: set[str] = set()
        self.floating = False
        self._rules: dict[type[Node], Callable[[Any], Typed]] = {
            Literal: self._literal,
            Name: self._name,
            Parameter: self._parameter,
            Unary: self._unary,
            Arithmetic: self._arithmetic,
            Logic: self._logic,
            Compare: self._compare,
            Member: self._member,
            Call: self._call,
        }

    def result(self, node: Node) -> tuple[Kind, Run]:
        """Check the whole tree; returns the kind of the result and the closure that computes it."""
        checked = self._check(node)
        if checked.kind == "vector":
            raise self._error(node, f"{self._show(checked)} cannot be a result", "Use has(x) or missing(x).")
        return checked.kind, self._bool(checked, "") if checked.kind == "bool" else checked.run

    def _check(self, node: Node) -> Typed:
        return self._rules[type(node)](node)

    def _error(self, node: Node, what: str, fix: str) -> ExpressionError:
        return ExpressionError(f"{what}. {fix}", node.start)

    def _quote(self, node: Node) -> str:
        text = " ".join(self._text[node.start : node.end].split())
        return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."

    def _show(self, item: Typed) -> str:
        return f"{self._quote(item.node)} ({item.kind})"

    # -- kinds that an operator asks for

    def _float(self, item: Typed, where: str) -> Run:
        if item.kind != "number":
            fix = "Write where(condition, 1, 0)." if item.kind == "bool" else "Numbers were expected."
            raise self._error(item.node, f"{self._show(item)} is not a number, as {where} needs", fix)
        run = item.run
        if item.constant:
            return _always(float(run({})))
        return (lambda columns: as_float(run(columns))) if item.raw else run

    def _bool(self, item: Typed, where: str) -> Run:
        if item.kind != "bool":
            fix = "Compare it, as in x != 0." if item.kind == "number" else "Compare it, or ask has(x)."
            raise self._error(item.node, f"{self._show(item)} is not a condition, as {where} needs", fix)
        run = item.run
        return (lambda columns: truth(run(columns))) if item.raw else run

    def _made(self, node: Node, kind: Kind, run: Run, parts: list[Typed]) -> Typed:
        if not all(part.constant for part in parts):
            return Typed(node, kind, run)
        with np.errstate(all="ignore"):
            value = run({})
        return Typed(node, kind, _always(value), constant=True)

    # -- leaves

    def _constant(self, node: Node, value: Any) -> Typed:
        kind: Kind = "bool" if isinstance(value, bool) else "str" if isinstance(value, str) else "number"
        return Typed(node, kind, _always(value), raw=kind == "number", constant=True)

    def _literal(self, node: Literal) -> Typed:
        return self._constant(node, node.value)

    def _parameter(self, node: Parameter) -> Typed:
        if node.name not in self._values:
            hint = suggest(node.name, self._values)
            raise self._error(node, f"${node.name} is not an experiment parameter", hint)
        value = self._values[node.name]
        if not isinstance(value, bool | int | float | str) or (
            not isinstance(value, str) and not (math.isfinite(value) and abs(value) < 2**63)
        ):
            raise self._error(node, f"${node.name} has no usable value", "A finite number, a bool or a text.")
        self.params.add(node.name)
        return self._constant(node, value)

    def _name(self, node: Name) -> Typed:
        if node.name not in self._schema:
            if node.name in FUNCTIONS:
                fix = f"Write {FUNCTIONS[node.name].usage}."
                raise self._error(node, f"{node.name} is a function", fix)
            raise self._error(node, f"{node.name} is not known here", suggest(node.name, self._schema))
        type_name = self._schema[node.name]
        kind = kind_of(type_name)
        self.names.add(node.name)
        self.floating |= is_float(type_name)
        return Typed(node, kind, load(node.name, kind), raw=True)

    # -- operators

    def _unary(self, node: Unary) -> Typed:
        item = self._check(node.operand)
        if node.operator == "not":
            condition = self._bool(item, "not")
            return self._made(node, "bool", lambda columns: negate(condition(columns)), [item])
        number = self._float(item, f"unary {node.operator}")
        if node.operator == "+":
            return self._made(node, "number", number, [item])
        return self._made(node, "number", lambda columns: -number(columns), [item])

    def _arithmetic(self, node: Arithmetic) -> Typed:
        self.floating = True
        left, right = self._check(node.left), self._check(node.right)
        first, second = self._float(left, node.operator), self._float(right, node.operator)
        apply = ARITHMETIC[node.operator]
        return self._made(node, "number", lambda columns: apply(first(columns), second(columns)), [left, right])

    def _logic(self, node: Logic) -> Typed:
        items = [self._check(operand) for operand in node.operands]
        runs = [self._bool(item, node.operator) for item in items]
        # Never cut short: the shape of the result must not depend on a value.
        join = operator.and_ if node.operator == "and" else operator.or_
        if len(runs) == 2:
            first, second = runs
            return self._made(node, "bool", lambda columns: join(first(columns), second(columns)), items)
        return self._made(node, "bool", lambda columns: reduce(join, [run(columns) for run in runs]), items)

    def _compare(self, node: Compare) -> Typed:
        items = [self._check(operand) for operand in node.operands]
        runs = [item.run for item in items]
        tests = [
            self._test(sign, left, right) for sign, (left, right) in zip(node.operators, pairwise(items), strict=True)
        ]
        if len(tests) == 1:
            (left, right), test = runs, tests[0]
            return self._made(node, "bool", lambda columns: test(left(columns), right(columns)), items)

        def chain(columns: Mapping[str, Any]) -> Any:
            pairs = pairwise([run(columns) for run in runs])
            return reduce(operator.and_, [test(a, b) for test, (a, b) in zip(tests, pairs, strict=True)])

        return self._made(node, "bool", chain, items)

    def _test(self, sign: str, left: Typed, right: Typed) -> Callable[[Any, Any], Any]:
        kind = self._common(left, right, f"{sign} cannot compare")
        if sign in COMPARISONS.get(kind, {}):
            return COMPARISONS[kind][sign]
        if kind == "vector":
            raise self._error(left.node, f"{self._show(left)} cannot be compared", "Use has(x) or missing(x).")
        raise self._error(left.node, f"{self._show(left)} has no order", f"Write == or != instead of {sign}.")

    def _common(self, left: Typed, right: Typed, what: str) -> Kind:
        """Return the kind that both sides share; a text literal beside a version has to be a version."""
        kinds = {left.kind, right.kind}
        if len(kinds) == 1:
            return left.kind
        if kinds == {"semver", "str"}:
            text = left if left.kind == "str" else right
            if text.constant:
                if version_key(text.run({})) is None:
                    what = f"{self._quote(text.node)} is not a version"
                    raise self._error(text.node, what, "A version looks like '3.0.1'.")
                return "semver"
        fix = "Both sides must be of one kind."
        if "bool" in kinds and (left if right.kind == "bool" else right).constant:
            fix = "Write true or false."
        raise self._error(left.node, f"{what} {self._show(left)} with {self._show(right)}", fix)

    def _member(self, node: Member) -> Typed:
        item = self._check(node.operand)
        options = [self._check(option) for option in node.options]
        kind = item.kind
        for option in options:
            kind = self._common(item, option, "in cannot compare")
        if kind == "vector":
            raise self._error(item.node, f"{self._show(item)} is in no list", "Use has(x) or missing(x).")
        run, test = item.run, member(kind, tuple(option.run({}) for option in options))
        if not node.negated:
            return self._made(node, "bool", lambda columns: test(run(columns)), [item])
        absent = MISSING[kind]

        def outside(columns: Mapping[str, Any]) -> Any:
            value = run(columns)
            return negate(test(value) | absent(value))

        return self._made(node, "bool", outside, [item])

    # -- functions

    def _call(self, node: Call) -> Typed:
        function = FUNCTIONS.get(node.function)
        if function is None:
            known = ", ".join(each.usage for each in FUNCTIONS.values())
            near = suggest(node.function, FUNCTIONS)
            hint = f"{near} " if near.startswith("Did") else ""
            raise self._error(node, f"{node.function} is not a function", f"{hint}Functions: {known}.")
        count = len(node.arguments)
        if count < function.least or (function.most is not None and count > function.most):
            raise self._error(node, f"{node.function} has {count} argument(s) here", f"Write {function.usage}.")
        items = [self._check(argument) for argument in node.arguments]
        if node.function == "where":
            return self._where(node, items)
        if node.function == "coalesce":
            return self._coalesce(node, items)
        call = function.call
        if call is None:
            return self._presence(node, items[0])
        self.floating = True
        runs = [self._float(item, node.function) for item in items]
        if len(runs) == 1:
            only = runs[0]
            return self._made(node, "number", lambda columns: call(only(columns)), items)
        return self._made(node, "number", lambda columns: call(*[run(columns) for run in runs]), items)

    def _presence(self, node: Call, item: Typed) -> Typed:
        run, absent = item.run, MISSING[item.kind]
        if node.function == "has":
            return self._made(node, "bool", lambda columns: negate(absent(run(columns))), [item])
        return self._made(node, "bool", lambda columns: absent(run(columns)), [item])

    def _where(self, node: Call, items: list[Typed]) -> Typed:
        condition = self._bool(items[0], "where")
        kind = self._common(items[1], items[2], "where cannot mix")
        if kind not in ("number", "bool"):
            raise self._error(
                items[1].node, f"where cannot choose {self._show(items[1])}", "It chooses numbers or bools."
            )
        cast = self._float if kind == "number" else self._bool
        first, second = cast(items[1], "where"), cast(items[2], "where")
        return self._made(
            node, kind, lambda columns: choose(condition(columns), first(columns), second(columns)), items
        )

    def _coalesce(self, node: Call, items: list[Typed]) -> Typed:
        kind = self._common(items[0], items[1], "coalesce cannot mix")
        if kind == "vector":
            raise self._error(node, f"coalesce cannot fill {self._show(items[0])}", "It fills single values.")
        value, default = items[0].run, items[1].run
        if kind == "number":
            value, default = self._float(items[0], "coalesce"), self._float(items[1], "coalesce")
        elif kind == "bool":
            default = self._bool(items[1], "coalesce")
        fill = FILL[kind]
        return self._made(node, kind, lambda columns: fill(value(columns), default(columns)), items)
