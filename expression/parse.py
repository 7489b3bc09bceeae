"""Text to tree, through Python's own parser and a whitelist of what it may have found."""

from __future__ import annotations

import ast
import keyword
import math
import re
import warnings

from expression.errors import ExpressionError
from expression.syntax import Arithmetic, Call, Compare, Literal, Logic, Member, Name, Node, Parameter, Unary

LONGEST_TEXT = 10_000
DEEPEST = 100

# A dollar sign is not Python, so `$x` is parsed as an identifier that starts with this letter: one character
# for one character, which keeps offsets true, and a letter that Python's NFKC normalisation leaves alone.
_DOLLAR = "ƿ"
_PIECE = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<open>['"].*)"""
    r"|(?P<dollar>\$(?=[^\W\d]))|(?P<field>\.[a-zA-Z]+\b)|(?P<space>\s)|(?P<comment>\#)|(?P<foreign>[^\x00-\x7f])",
    re.DOTALL,
)
_BREAK = re.compile(r"[\r\n]")
_DECIMAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_HINTS = {
    "&&": "Write and.",
    "||": "Write or.",
    "!": "Write not, or != between two values.",
    "=": "Write == to compare.",
    "$": "A parameter is written $name or $layer.name.",
    ";": "Write one expression.",
}
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Mod: "%",
    ast.Pow: "**",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Not: "not"}
_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.IfExp: ("a conditional", "Write where(condition, a, b)."),
    ast.BitAnd: ("the operator &", "Write and."),
    ast.BitOr: ("the operator |", "Write or."),
    ast.BitXor: ("the operator ^", "Write ** for a power."),
    ast.Invert: ("the operator ~", "Write not."),
    ast.FloorDiv: ("the operator //", "Write floor(a / b)."),
    ast.Is: ("the operator is", "Write missing(x)."),
    ast.IsNot: ("the operator is not", "Write has(x)."),
    ast.Subscript: ("an index", "Names are dotted, like item.price."),
    ast.JoinedStr: ("a formatted text", "Write a plain text."),
    ast.NamedExpr: ("an assignment", "Write == to compare."),
    ast.List: ("a list by itself", "A list stands on the right of in."),
    ast.Tuple: ("a list by itself", "A list stands on the right of in, and decimals take a point."),
}


def parse(text: str) -> Node:
    """Return the tree of `text`; raises ExpressionError and nothing else, whatever the text."""
    if len(text) > LONGEST_TEXT:
        raise ExpressionError(f"the expression has {len(text)} characters. At most {LONGEST_TEXT} are read.")
    if not text.strip():
        raise ExpressionError("the expression is empty. Write a condition or a score.")
    prepared = _PIECE.sub(_prepare, text)
    indent = len(prepared) - len(prepared.lstrip())
    prepared = prepared[indent:].rstrip()
    try:
        with warnings.catch_warnings():
            # Python's doubts (`1or 2`, an unknown escape in a text) are errors here, not lines on stderr.
            warnings.simplefilter("error")
            body = ast.parse(prepared, mode="eval").body
    except SyntaxError as error:
        raise _syntax_error(prepared, indent, error) from None
    except ValueError as error:
        raise ExpressionError(f"the expression cannot be read: {error}. Remove what is not text.") from None
    except (RecursionError, MemoryError):
        raise ExpressionError(f"the expression is nested too deeply. At most {DEEPEST} levels.") from None
    return _Reader(prepared, indent).read(body, 0)


def _prepare(match: re.Match[str]) -> str:
    piece = match[0]
    match match.lastgroup:
        case "text" | "open":
            return _BREAK.sub(" ", piece)
        case "dollar":
            return _DOLLAR
        case "space":
            return " "
        case "field" if keyword.iskeyword(piece[1:]):
            # `item.class` is a fine column: its full-width spelling is an identifier that normalises to it.
            return "." + chr(ord(piece[1]) + 0xFEE0) + piece[2:]
        case "comment":
            raise ExpressionError("# has no meaning inside an expression. Put the comment after it.", match.start())
        case "foreign":
            # Python normalises what looks like a letter, so another name than the one that is written would be read.
            shown = f"{piece} (U+{ord(piece):04X})" if piece.isprintable() else f"U+{ord(piece):04X}"
            raise ExpressionError(f"{shown} has no meaning outside of quotes. Write ASCII there.", match.start())
        case _:
            return piece


def _syntax_error(prepared: str, indent: int, error: SyntaxError) -> ExpressionError:
    bare = _PIECE.sub(lambda match: " " * len(match[0]), prepared)
    # Python reports the end of the text as offset 0.
    offset = min(error.offset - 1, len(prepared)) if error.offset else len(prepared)
    for mark, hint in _HINTS.items():
        found = re.search(rf"(?<![=<>!]){re.escape(mark)}(?!=)", bare)
        if found:
            return ExpressionError(f"{mark} has no meaning here. {hint}", indent + found.start())
    reason = str(error.msg).replace(_DOLLAR, "$").split(". ")[0]
    return ExpressionError(f"not an expression: {reason}. Check what stands there.", indent + offset)


def _unary(node: Unary) -> Unary | Literal:
    # -5 is one literal: negating in the compiler would make it a float, which is not exact above 2**53.
    value = node.operand.value if isinstance(node.operand, Literal) else ""
    if node.operator == "not" or isinstance(value, bool | str):
        return node
    return Literal(node.start, node.end, -value if node.operator == "-" else value)


class _Reader:
    def __init__(self, prepared: str, indent: int) -> None:
        self._prepared = prepared
        self._indent = indent

    def read(self, node: ast.expr, depth: int) -> Node:
        if depth > DEEPEST:
            raise self._refuse(node, "the expression is nested too deeply", f"At most {DEEPEST} levels.")
        start, end = self._span(node)
        below = depth + 1
        match node:
            case ast.Constant(value=value):
                return Literal(start, end, self._constant(node, value))
            case ast.Name() | ast.Attribute():
                return self._name(node)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return _unary(Unary(start, end, _UNARY[type(op)], self.read(operand, below)))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                sides = self.read(left, below), self.read(right, below)
                return Arithmetic(start, end, _ARITHMETIC[type(op)], *sides)
            case ast.BoolOp(op=op, values=values):
                word = "and" if isinstance(op, ast.And) else "or"
                return Logic(start, end, word, tuple(self.read(value, below) for value in values))
            case ast.Compare():
                return self._compare(node, below)
            case ast.Call():
                return self._call(node, below)
            case _:
                raise self._unsupported(node, node)

    def _span(self, node: ast.expr) -> tuple[int, int]:
        start, end = node.col_offset, node.end_col_offset or node.col_offset
        if not self._prepared.isascii():
            # Python counts UTF-8 bytes.
            line = self._prepared.encode()
            start, end = len(line[:start].decode()), len(line[:end].decode())
        return start + self._indent, end + self._indent

    def _refuse(self, node: ast.expr, what: str, fix: str) -> ExpressionError:
        return ExpressionError(f"{what}. {fix}", self._span(node)[0])

    def _unsupported(self, at: ast.expr, what: ast.AST) -> ExpressionError:
        operator = getattr(what, "op", what)
        word, fix = _REFUSED.get(type(operator), (f"a Python {type(what).__name__}", "See the language's reference."))
        return self._refuse(at, f"{word} is not part of the language", fix)

    def _constant(self, node: ast.expr, value: object) -> int | float | str | bool:
        if isinstance(value, bool):
            raise self._refuse(node, f"{value} is not part of the language", f"Write {str(value).lower()}.")
        if isinstance(value, str):
            return self._text(node, value)
        if isinstance(value, int | float):
            if not math.isfinite(value) if isinstance(value, float) else value >= 2**63:
                raise self._refuse(node, "the number is too large", "Integers end at 2**63 - 1.")
            written = self._written(node)
            if _DECIMAL.fullmatch(written) is None:
                raise self._refuse(node, f"{written:.40} is not a plain decimal number", f"Write {value}.")
            return value
        if value is None:
            raise self._refuse(node, "None is not part of the language", "Write missing(x) or has(x).")
        raise self._refuse(node, f"{value!r:.40} is not part of the language", "Write a number or a text.")

    def _written(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._prepared[start - self._indent : end - self._indent]

    def _text(self, node: ast.expr, value: str) -> str:
        """One text in its quotes: Python would take prefixes, and join texts that stand side by side."""
        written = self._written(node)
        first = _PIECE.match(written)
        if first is None or first.lastgroup != "text":
            raise self._refuse(node, "a letter before a quote is not part of the language", "Write a plain text.")
        rest = written[first.end() :]
        if rest:
            second = self._span(node)[1] - len(rest.lstrip())
            raise ExpressionError("two texts stand side by side. Put a comma between them.", second)
        return value

    def _name(self, node: ast.Name | ast.Attribute) -> Literal | Name | Parameter:
        start, end = self._span(node)
        parts: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            raise self._refuse(node, "a field of something that is no name", "Names look like item.price.")
        name = ".".join([inner.id, *reversed(parts)])
        if name.startswith(_DOLLAR):
            return Parameter(start, end, name[1:])
        if name in ("true", "false"):
            return Literal(start, end, name == "true")
        return Name(start, end, name)

    def _compare(self, node: ast.Compare, depth: int) -> Compare | Member:
        start, end = self._span(node)
        if any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            if len(node.ops) > 1:
                raise self._refuse(node, "in cannot be part of a chain", "Join the two conditions with and.")
            options = self._options(node.comparators[0], depth)
            return Member(start, end, self.read(node.left, depth), options, isinstance(node.ops[0], ast.NotIn))
        for op in node.ops:
            if type(op) not in _COMPARISONS:
                raise self._unsupported(node, op)
        operands = tuple(self.read(operand, depth) for operand in (node.left, *node.comparators))
        return Compare(start, end, tuple(_COMPARISONS[type(op)] for op in node.ops), operands)

    def _options(self, node: ast.expr, depth: int) -> tuple[Literal | Parameter, ...]:
        fix = "Write a list of literals, like ('a', 'b')."
        if isinstance(node, ast.Constant):
            self._constant(node, node.value)  # ('a' 'b') is one text to Python
        if not isinstance(node, ast.List | ast.Tuple | ast.Set):
            raise self._refuse(node, "the right side of in is not a list", fix)
        if not node.elts:
            raise self._refuse(node, "the list is empty", fix)
        options = []
        for element in node.elts:
            option = self.read(element, depth)
            if not isinstance(option, Literal | Parameter):
                raise self._refuse(element, "only literals and parameters stand in a list", fix)
            options.append(option)
        return tuple(options)

    def _call(self, node: ast.Call, depth: int) -> Call:
        start, end = self._span(node)
        if not isinstance(node.func, ast.Name):
            raise self._refuse(node, "only functions are called", "They have plain names, like log1p(x).")
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise self._refuse(node, "arguments by name or by * are not part of the language", "List them in order.")
        return Call(start, end, node.func.id, tuple(self.read(argument, depth) for argument in node.args))
