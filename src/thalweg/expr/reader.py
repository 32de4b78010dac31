"""From sqlglot's tree to an expression: one reader for each form of node, and the table of all
forms. Loaded with the first text, as sqlglot is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

import pyarrow as pa
from sqlglot import exp

from thalweg.errors import WindowError, did_you_mean
from thalweg.expr._rendering import STATEMENT_WORDS
from thalweg.expr._syntax import Source
from thalweg.expr.case import Case
from thalweg.expr.casts import TYPE_NAMES, type_named
from thalweg.expr.functions import ALIASES, FUNCTIONS, unknown_function
from thalweg.expr.nodes import Call, Cast, Column, Expr, Literal
from thalweg.expr.user_calls import find_user_function, user_call
from thalweg.model.time import duration_us

__all__ = ["ExpressionReader", "interval_text"]


class ExpressionReader:
    """Converts sqlglot's tree to an expression. An unsupported node raises an error that points at
    its place in the text."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def convert(self, node: exp.Expr) -> Expr:
        """An expression for a node of sqlglot's tree."""
        form = _FORMS.get(type(node))
        present = {key for key, value in node.args.items() if value not in (None, False, [])}
        if form is None or not present <= form.arguments:
            self.source.refuse_node(node, f"{node.sql()} is not supported in an expression.")
        return form.read(self, node)

    def read_pair(self, name: str, node: exp.Expr) -> Expr:
        """A function of two operands."""
        return Call(name, (self.convert(node.this), self.convert(node.expression)))

    def read_column(self, node: exp.Expr) -> Expr:
        parts = [
            node.args[level]
            for level in ("catalog", "db", "table", "this")
            if node.args.get(level) is not None
        ]
        for part in parts:
            if not isinstance(part, exp.Identifier):
                self.source.refuse_node(node, f"{node.sql()} is not the name of a column.")
            if not part.args.get("quoted") and part.this.upper() in STATEMENT_WORDS:
                self.source.refuse_node(
                    part,
                    f"{part.this!r} begins a statement; a column of that name is written"
                    f' "{part.this}".',
                )
            if not part.this:
                self.source.refuse_node(part, "a name is missing between the quotes.")
        return Column(".".join(part.this for part in parts))

    def read_literal(self, node: exp.Expr) -> Expr:
        return Literal(node.this) if node.args["is_string"] else self.read_number(node, node.this)

    def read_number(self, node: exp.Expr, digits: str) -> Expr:
        if digits.lstrip("-").isdigit():
            if not -(2**63) <= int(digits) < 2**63:
                self.source.refuse_node(
                    node, f"{digits} does not fit in a bigint; write {digits}.0 for a double."
                )
            return Literal(int(digits))
        try:
            value = float(digits)
        except ValueError:
            self.source.refuse_node(node, f"{digits} is not a number.")
        if value in (float("inf"), float("-inf")):
            self.source.refuse_node(node, f"{digits} is too large for a double.")
        return Literal(value)

    def read_negation(self, node: exp.Expr) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.args["is_string"]:
            return self.read_number(inner, "-" + inner.this)
        return Call("negate", (self.convert(inner),))

    def read_between(self, node: exp.Expr) -> Expr:
        value, low, high = (self.convert(node.args[part]) for part in ("this", "low", "high"))
        return Call("and", (Call("ge", (value, low)), Call("le", (value, high))))

    def read_in(self, node: exp.Expr) -> Expr:
        choices = [self.convert(item) for item in node.args.get("expressions") or ()]
        if not all(isinstance(choice, Literal) for choice in choices):
            self.source.refuse_node(node, "IN takes a list of constants: x IN (1, 2, 3).")
        return self.convert(node.this).isin(
            [choice.value for choice in choices if isinstance(choice, Literal)]
        )

    def read_match(self, name: str, node: exp.Expr) -> Expr:
        found = self.read_pair(name, node)
        return Call("not", (found,)) if node.args.get("negate") else found

    def read_not(self, node: exp.Expr) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return Call("is_not_null", (self.convert(inner.this),))
        return Call("not", (self.convert(inner),))

    def read_is(self, node: exp.Expr) -> Expr:
        value = self.convert(node.this)
        if isinstance(node.expression, exp.Null):
            return Call("is_null", (value,))
        if not isinstance(node.expression, exp.Boolean):
            self.source.refuse_node(
                node, "IS takes NULL, TRUE or FALSE; compare other values with =."
            )
        return Call(
            "coalesce",
            (value if node.expression.this else Call("not", (value,)), Literal(value=False)),
        )

    def read_case(self, node: exp.Expr) -> Expr:
        subject = self.convert(node.this) if node.this is not None else None
        branches = []
        for branch in node.args["ifs"]:
            condition, value = self.convert(branch.this), self.convert(branch.args["true"])
            branches.append(
                (condition if subject is None else Call("eq", (subject, condition)), value)
            )
        if not branches:
            self.source.refuse_node(node, "CASE needs at least one WHEN ... THEN ...")
        default = node.args.get("default")
        return Case(tuple(branches), None if default is None else self.convert(default))

    def read_cast(self, node: exp.Expr, *, safe: bool = False) -> Expr:
        name = str(node.args["to"].args.get("kind"))
        type_ = type_named(name) if name.isascii() else None
        if type_ is None:
            guess = did_you_mean(name.lower(), TYPE_NAMES)
            type_names = ", ".join((*TYPE_NAMES, "decimal(p, s)"))
            self.source.refuse_node(node, f"unknown type {name!r}{guess} Types: {type_names}.")
        literal = node.this
        text = isinstance(literal, exp.Literal) and literal.args["is_string"]
        if text and pa.types.is_temporal(type_) and not safe:
            return self.read_time(literal, type_)
        return Cast(self.convert(node.this), type_, safe)

    def read_time(self, node: exp.Expr, type_: pa.DataType) -> Expr:
        """TIMESTAMP '2026-01-31 12:00' and DATE '2026-01-31': a constant."""
        try:
            found = datetime.fromisoformat(node.this.strip())
        except ValueError:
            self.source.refuse_node(
                node,
                f"{node.this!r} is no time; write it as '2026-01-31 12:00:00', with a zone if it is"
                " not UTC.",
            )
        if pa.types.is_date(type_):
            return Literal(found.date(), type_)
        if found.tzinfo is not None and type_.tz is None:
            type_ = pa.timestamp("us", "UTC")
        return Literal(found if found.tzinfo else found.replace(tzinfo=_zone(type_)), type_)

    def read_interval(self, node: exp.Expr) -> Expr:
        """INTERVAL '10' MINUTE."""
        months = self.months(node)
        if months is not None:
            self.source.refuse_node(
                node,
                "months and years have no fixed length; add them to a time: t + INTERVAL '1' "
                "MONTH.",
            )
        try:
            ticks = duration_us(interval_text(node), what="INTERVAL")
            return Literal(timedelta(microseconds=ticks))
        except WindowError as reason:
            self.source.refuse_node(node, reason.reason)

    def months(self, node: exp.Expr) -> int | None:
        """How many months an interval is, if it is counted in them."""
        if not isinstance(node, exp.Interval) or node.this is None:
            return None
        words = interval_text(node).lower().split()
        size = {"month": 1, "quarter": 3, "year": 12}.get(words[-1].removesuffix("s"))
        whole = len(words) == 2 and words[0].lstrip("-").isdigit()
        return int(words[0]) * size if size is not None and whole else None

    def read_sum(self, node: exp.Expr) -> Expr:
        """`+` and `-`, of which one side may be a number of months."""
        name = "add" if isinstance(node, exp.Add) else "subtract"
        months = self.months(node.expression)
        if months is None:
            return self.read_pair(name, node)
        return Call(
            "add_months",
            (self.convert(node.this), Literal(months if name == "add" else -months)),
        )

    def read_distinct(self, node: exp.Expr) -> Expr:
        differ = self.read_pair("is_distinct", node)
        return differ if isinstance(node, exp.NullSafeNEQ) else Call("not", (differ,))

    def read_item(self, node: exp.Expr) -> Expr:
        """`list[1]`, `map['key']`."""
        if len(node.expressions) != 1:
            self.source.refuse_node(node, "one item is named between the brackets.")
        return Call("element_at", (self.convert(node.this), self.convert(node.expressions[0])))

    def read_qualified(self, node: exp.Expr) -> Expr:
        """A function in a namespace, `finance.vwap(price)`."""
        names, inner = [], node
        while isinstance(inner, exp.Dot):
            names.append(inner.this.name)
            inner = inner.expression
        if (
            not isinstance(inner, exp.Anonymous)
            or not all(name.isidentifier() for name in names)
            or not isinstance(inner.this, str)
        ):
            self.source.refuse_node(node, f"{node.sql()} is not supported in an expression.")
        full = ".".join([*names, inner.this])
        own = find_user_function(full)
        if own is None:
            self.source.refuse_node(
                node,
                f"{node.sql()} is not supported in an expression: no function {full!r} is "
                "registered (see udm.function).",
            )
        return user_call(own, tuple(self.convert(arg) for arg in inner.expressions))

    def read_call(self, node: exp.Expr) -> Expr:
        if not isinstance(node.this, str) or not node.this.isascii():
            self.source.refuse_node(node, f"{node.this} is not the name of a function.")
        name = node.this.lower()
        if name == "if":
            return self.read_if(node)
        function = FUNCTIONS.get(_SWAPPED.get(name, ALIASES.get(name, name)))
        own = find_user_function(node.this) if function is None else None
        if own is not None:
            return user_call(own, self.read_arguments(name, node))
        if function is None:  # before its arguments are read, which have a meaning only in it
            self.source.refuse(
                unknown_function(node.this, ("if", "cast", "try_cast")), node.meta["start"]
            )
        args = self.read_arguments(name, node)
        if len(args) < function.least or (function.most is not None and len(args) > function.most):
            self.source.refuse(
                f"{name} takes {function.arity}; got {len(args)}.", node.meta["start"]
            )
        return Call(function.name, args[::-1] if name in _SWAPPED else args)

    def read_if(self, node: exp.Expr) -> Expr:
        args = tuple(self.convert(arg) for arg in node.expressions)
        if len(args) not in (2, 3):
            self.source.refuse_node(
                node, f"if takes a condition and one or two values; got {len(args)} arguments."
            )
        return Case(((args[0], args[1]),), args[2] if len(args) == 3 else None)

    def read_arguments(self, function: str, node: exp.Expr) -> tuple[Expr, ...]:
        return tuple(
            self.read_argument(function, at, arg) for at, arg in enumerate(node.expressions)
        )

    def read_argument(self, function: str, at: int, node: exp.Expr) -> Expr:
        """An argument; TIMESTAMPDIFF(MINUTE, a, b) names its unit without quotes."""
        unit = function in ("timestampdiff", "timestampadd") and at == 0
        if unit and isinstance(node, exp.Column) and not node.args.get("table"):
            return Literal(node.this.this.lower())
        return self.convert(node)


def interval_text(node: exp.Expr) -> str:
    """INTERVAL '10' MINUTES as the text of a duration, 10 MINUTES."""
    unit = node.args.get("unit")
    return f"{node.this.name} {unit.name if unit is not None else ''}".strip()


def _zone(type_: pa.DataType) -> tzinfo | None:
    return None if type_.tz is None else UTC


_SWAPPED = {"instr": "position"}
"""Functions that are another one with its two arguments the other way round."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How a kind of sqlglot's nodes is read, and which of its arguments that takes into account. A
    node with any other argument is refused, so that no part of the text is ignored."""

    read: Callable[[ExpressionReader, exp.Expr], Expr]
    arguments: frozenset[str] = frozenset({"this", "expression"})


def _pair(function: str) -> _Form:
    return _Form(lambda reader, node: reader.read_pair(function, node))


def _match(function: str) -> _Form:
    arguments = frozenset({"this", "expression", "negate"})
    return _Form(lambda reader, node: reader.read_match(function, node), arguments)


def _form(read: Callable[[ExpressionReader, exp.Expr], Expr], *arguments: str) -> _Form:
    return _Form(read, frozenset(arguments))


def _concat(reader: ExpressionReader, node: exp.Expr) -> Expr:
    return reader.read_pair("concat", node)


def _try_cast(reader: ExpressionReader, node: exp.Expr) -> Expr:
    return reader.read_cast(node, safe=True)


def _at_time_zone(reader: ExpressionReader, node: exp.Expr) -> Expr:
    parts = (reader.convert(node.this), reader.convert(node.args["zone"]))
    return Call("at_time_zone", parts)


_Reader = ExpressionReader
_FORMS: Mapping[type[exp.Expr], _Form] = {
    exp.Paren: _form(lambda reader, node: reader.convert(node.this), "this"),
    exp.Column: _form(_Reader.read_column, "catalog", "db", "table", "this"),
    exp.Dot: _Form(_Reader.read_qualified),
    exp.Literal: _form(_Reader.read_literal, "this", "is_string"),
    exp.Boolean: _form(lambda _, node: Literal(value=bool(node.this)), "this"),
    exp.Null: _form(lambda _reader, _node: Literal(None)),
    exp.Neg: _form(_Reader.read_negation, "this"),
    exp.Add: _Form(_Reader.read_sum),
    exp.Sub: _Form(_Reader.read_sum),
    exp.Mul: _pair("multiply"),
    exp.Div: _pair("divide"),
    exp.IntDiv: _pair("floor_div"),
    exp.Mod: _pair("mod"),
    exp.EQ: _pair("eq"),
    exp.NEQ: _pair("ne"),
    exp.LT: _pair("lt"),
    exp.LTE: _pair("le"),
    exp.GT: _pair("gt"),
    exp.GTE: _pair("ge"),
    exp.NullSafeEQ: _Form(_Reader.read_distinct),
    exp.NullSafeNEQ: _Form(_Reader.read_distinct),
    exp.And: _pair("and"),
    exp.Or: _pair("or"),
    exp.Not: _form(_Reader.read_not, "this"),
    exp.Is: _Form(_Reader.read_is),
    exp.Between: _form(_Reader.read_between, "this", "low", "high"),
    exp.In: _form(_Reader.read_in, "this", "expressions"),
    exp.Like: _match("like"),
    exp.ILike: _match("ilike"),
    exp.RegexpLike: _match("regexp_like"),
    exp.DPipe: _form(_concat, "this", "expression", "safe"),
    exp.Interval: _form(_Reader.read_interval, "this", "unit"),
    exp.AtTimeZone: _form(_at_time_zone, "this", "zone"),
    exp.Bracket: _form(_Reader.read_item, "this", "expressions"),
    exp.Case: _form(_Reader.read_case, "this", "ifs", "default"),
    exp.Cast: _form(_Reader.read_cast, "this", "to"),
    exp.TryCast: _form(_try_cast, "this", "to", "safe"),
    exp.Anonymous: _form(_Reader.read_call, "this", "expressions"),
}
