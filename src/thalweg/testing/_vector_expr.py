"""Expressions of the vector format: Python syntax, read as a tree and translated node by node.
Nothing is ever executed.

Names are columns, `l.x` and `r.x` the sides of a join, `(a, b)` several keys, `v[0]` a character,
`{'a': 0}[v]` a lookup. Comparisons follow Python where SQL would answer null: `None == None` is
true, and a comparison with `None` is false.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

import pyarrow as pa

from thalweg.expr import Case, Cast, Column, Expr, Literal, call

__all__ = ["VectorError", "translate", "translate_keys"]


class VectorError(ValueError):
    """A vector that does not follow the format."""


_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.FloorDiv: "floor_div",
    ast.Mod: "floor_mod",
    ast.Pow: "power",
}
_ORDER: dict[type[ast.cmpop], str] = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_FUNCTIONS = {"len": "length", "abs": "abs", "min": "least", "max": "greatest", "round": "round"}
_CASTS = {"int": pa.int64(), "float": pa.float64(), "str": pa.string()}
_METHODS = {
    "upper": "upper",
    "lower": "lower",
    "strip": "trim",
    "startswith": "starts_with",
    "endswith": "ends_with",
}
_FALSE = Literal(value=False, type=pa.bool_())


def translate(text: str | float | None, schema: pa.Schema) -> Expr:
    """An expression over the columns of a schema.

    >>> columns = pa.schema([("v", pa.int64())])
    >>> by_hand = call("floor_div", Column("v"), Literal(10, pa.int64()))
    >>> str(translate("v // 10", columns)) == str(by_hand)
    True
    """
    if not isinstance(text, str):
        return _literal(text)
    return _Reader(text, schema).read(_parsed(text))


def translate_keys(text: str | None, schema: pa.Schema) -> tuple[Expr, ...]:
    """One key, several as a tuple, or none."""
    if text is None:
        return ()
    tree = _parsed(text)
    parts = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    return tuple(_Reader(text, schema).read(part) for part in parts)


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as reason:
        raise VectorError(f"{text!r} is not an expression: {reason.msg}") from reason


def _literal(value: object) -> Expr:
    if value is None:
        return Literal(None, pa.null())
    for kind, type_ in (
        (bool, pa.bool_()),
        (int, pa.int64()),
        (float, pa.float64()),
        (str, pa.string()),
    ):
        if isinstance(value, kind):
            return Literal(value, type_)
    raise VectorError(f"{value!r} is not a number, text, truth value or None")


class _Reader:
    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema

    def read(self, tree: ast.expr) -> Expr:
        """Dispatch on the kind of the tree: `Compare` is read by `_compare`, and so on."""
        reader: Callable[[ast.expr], Expr] | None = getattr(
            self, f"_{type(tree).__name__.lower()}", None
        )
        if reader is None:
            raise self._strange(tree)
        return reader(tree)

    def _strange(self, tree: ast.AST) -> VectorError:
        return VectorError(f"{self._text!r}: {type(tree).__name__} is not part of the format")

    def _constant(self, tree: ast.Constant) -> Expr:
        return _literal(tree.value)

    def _name(self, tree: ast.Name) -> Expr:
        return Column(tree.id)

    def _attribute(self, tree: ast.Attribute) -> Expr:
        if isinstance(tree.value, ast.Name) and tree.value.id in ("l", "r"):
            return Column(f"{tree.value.id}.{tree.attr}")
        raise self._strange(tree)

    def _unaryop(self, tree: ast.UnaryOp) -> Expr:
        if isinstance(tree.op, ast.Not):
            return call("not", self.read(tree.operand))
        if isinstance(tree.op, ast.USub):
            if isinstance(tree.operand, ast.Constant) and isinstance(
                tree.operand.value, int | float
            ):
                return _literal(-tree.operand.value)
            return call("negate", self.read(tree.operand))
        raise self._strange(tree.op)

    def _binop(self, tree: ast.BinOp) -> Expr:
        left, right = self.read(tree.left), self.read(tree.right)
        if isinstance(tree.op, ast.Div):
            return call("divide", Cast(left, pa.float64()), Cast(right, pa.float64()))
        if type(tree.op) not in _ARITHMETIC:
            raise self._strange(tree.op)
        if isinstance(tree.op, ast.Add) and pa.types.is_string(left.type_in(self._schema)):
            return call("concat", left, right)
        return call(_ARITHMETIC[type(tree.op)], left, right)

    def _boolop(self, tree: ast.BoolOp) -> Expr:
        word = "and" if isinstance(tree.op, ast.And) else "or"
        return _chain(word, [self.read(value) for value in tree.values])

    def _compare(self, tree: ast.Compare) -> Expr:
        operands = [tree.left, *tree.comparators]
        return _chain(
            "and",
            [self._pair(*each) for each in zip(tree.ops, operands, operands[1:], strict=False)],
        )

    def _pair(self, operator: ast.cmpop, left: ast.expr, right: ast.expr) -> Expr:
        if isinstance(operator, ast.In | ast.NotIn):
            if not isinstance(right, ast.Tuple | ast.List | ast.Set):
                raise self._strange(right)
            found = _chain(
                "or", [_same(self.read(left), self.read(item)) for item in right.elts] or [_FALSE]
            )
            return found if isinstance(operator, ast.In) else call("not", found)
        left_value, right_value = self.read(left), self.read(right)
        if isinstance(operator, ast.Eq | ast.Is):
            return _same(left_value, right_value)
        if isinstance(operator, ast.NotEq | ast.IsNot):
            return call("not", _same(left_value, right_value))
        return call("coalesce", call(_ORDER[type(operator)], left_value, right_value), _FALSE)

    def _ifexp(self, tree: ast.IfExp) -> Expr:
        return Case(((self.read(tree.test), self.read(tree.body)),), self.read(tree.orelse))

    def _subscript(self, tree: ast.Subscript) -> Expr:
        if isinstance(tree.value, ast.Dict):
            return self._lookup(tree.value, self.read(tree.slice))
        text = self.read(tree.value)
        if isinstance(tree.slice, ast.Constant) and isinstance(tree.slice.value, int):
            return call("char_at", text, _literal(tree.slice.value))
        if isinstance(tree.slice, ast.Slice) and tree.slice.step is None:
            first = self._position(tree.slice.lower, 0)
            arguments = [_literal(first + 1)]
            if tree.slice.upper is not None:
                arguments.append(_literal(max(0, self._position(tree.slice.upper, 0) - first)))
            return call("substring", text, *arguments)
        raise self._strange(tree.slice)

    def _position(self, tree: ast.expr | None, default: int) -> int:
        if tree is None:
            return default
        if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
            return tree.value
        raise self._strange(tree)

    def _lookup(self, table: ast.Dict, key: Expr) -> Expr:
        pairs = zip(table.keys, table.values, strict=True)
        branches = tuple(
            (_same(key, self.read(name)), self.read(value))
            for name, value in pairs
            if name is not None
        )
        return Case(branches, None)

    def _call(self, tree: ast.Call) -> Expr:
        arguments = [self.read(argument) for argument in tree.args]
        if isinstance(tree.func, ast.Attribute) and tree.func.attr in _METHODS:
            return call(_METHODS[tree.func.attr], self.read(tree.func.value), *arguments)
        if not isinstance(tree.func, ast.Name) or tree.keywords:
            raise self._strange(tree)
        if tree.func.id in _CASTS and len(arguments) == 1:
            return self._cast(arguments[0], _CASTS[tree.func.id])
        if tree.func.id not in _FUNCTIONS:
            raise VectorError(
                f"{self._text!r}: the function {tree.func.id!r} is not part of the format"
            )
        return call(_FUNCTIONS[tree.func.id], *arguments)

    def _cast(self, value: Expr, type_: pa.DataType) -> Expr:
        if pa.types.is_integer(type_) and pa.types.is_floating(
            value.type_in(self._schema)
        ):  # int() cuts towards zero
            whole = call("multiply", call("sign", value), call("floor", call("abs", value)))
            return Cast(whole, type_)
        return Cast(value, type_)


def _chain(word: str, parts: list[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = call(word, result, part)
    return result


def _same(left: Expr, right: Expr) -> Expr:
    nothing = [isinstance(side, Literal) and side.value is None for side in (left, right)]
    if any(nothing):
        return call("is_null", left if nothing[1] else right)
    constant = isinstance(left, Literal) or isinstance(right, Literal)
    both_null = _FALSE if constant else call("and", call("is_null", left), call("is_null", right))
    return call("coalesce", call("eq", left, right), both_null)
