"""The grammar's tree: what a text says, before any name is known. Offsets are characters of the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Node:
    """A piece of an expression, `text[start:end]`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A number, a text, true or false."""

    value: int | float | str | bool


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A column or a request's value: `item.price`, `context.hour`, `buy`."""

    name: str


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """An experiment parameter, `$recall.vector_k`; `name` is without the dollar sign."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-x`, `+x` or `not x`."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`left operator right` with one of `+ - * / % **`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """Two or more operands joined by `and` or by `or`."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """A chain `a < b <= c`: one more operand than operators."""

    operators: tuple[str, ...]
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Member(Node):
    """`operand in (...)`, or `not in` when `negated`; the options are literals or parameters."""

    operand: Node
    options: tuple[Literal | Parameter, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of the whitelist and its arguments."""

    function: str
    arguments: tuple[Node, ...]


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and everything below it."""
    yield node
    for field in fields(node):
        value = getattr(node, field.name)
        for child in value if isinstance(value, tuple) else (value,):
            if isinstance(child, Node):
                yield from walk(child)
