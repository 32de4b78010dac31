"""Two relations side by side, as a join sees them: keys and conditions of pairs, and what a pair
keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.expr import Call, Column, Expr, lit
from thalweg.plan.expressions import START
from thalweg.sql.expressions import Context, RowReader, conjuncts
from thalweg.sql.relations import Field, Relation, unique_names
from thalweg.stream import Stream

__all__ = ["Pair", "on_conditions", "using_conditions"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two relations side by side: what conditions and the result see of them."""

    left: Relation
    right: Relation
    both: Relation
    copied: list[Field]
    """The columns that a pair keeps, other than its times."""
    names: list[str]
    times: tuple[str, str]

    @classmethod
    def of(cls, left: Relation, right: Relation, used: frozenset[str] | None) -> Pair:
        both = Relation(left.stream, (*_side_fields(left, "l"), *_side_fields(right, "r")))
        copied = [
            field
            for field in both.fields
            if not _is_start(field.value) and (used is None or field.name in used)
        ]
        names = unique_names((field.table, field.name) for field in copied)
        return cls(left, right, both, copied, names, _time_names(left, right, names))

    @property
    def select(self) -> dict[str, Expr]:
        return {name: field.value for name, field in zip(self.names, self.copied, strict=True)} or {
            "one": lit(1)
        }

    def conditions(
        self, context: Context, conditions: list[exp.Expr]
    ) -> tuple[dict[str, Expr] | None, Expr | None]:
        """The equalities of keys, and the remaining condition."""
        keys, residual = _split(context, conditions, self.left, self.right, self.both)
        where = None
        for condition in residual:
            where = condition if where is None else Call("and", (where, condition))
        return {str(left_key): right_key for left_key, right_key in keys} or None, where

    def joined(self, stream: Stream) -> Relation:
        fields = [
            Field(field.name, Column(name), field.table, shown=field.shown)
            for name, field in zip(self.names, self.copied, strict=True)
        ]
        return Relation(stream, (*fields, Field(START, Column(START), is_time=True, shown=False)))

    def timed(self, stream: Stream) -> Relation:
        """Like `joined`, for pairs that carry the times of both sides."""
        times = [
            replace(field, value=Column(time), is_time=False, is_ticks=True)
            for side, time in zip((self.left, self.right), self.times, strict=True)
            for field in side.fields
            if field.is_time and field.name != START
        ]
        pairs = self.joined(stream)
        return Relation(stream, (*pairs.fields, *times), determine_start=self.times)


def _is_start(value: Expr) -> bool:
    return isinstance(value, Column) and value.name in ("l._start", "r._start")


def _time_names(left: Relation, right: Relation, taken: list[str]) -> tuple[str, str]:
    """Columns for the times of both sides, that neither a side nor the result has yet."""
    used_names = {*left.stream.schema.names, *right.stream.schema.names, *taken}
    found = []
    for relation, side in ((left, "left"), (right, "right")):
        time = next((field for field in relation.fields if field.is_time and field.shown), None)
        name = f"{time.table or side}_{time.name}" if time is not None else f"{side}_time"
        while name in used_names:
            name = f"{name}_"
        used_names.add(name)
        found.append(name)
    return found[0], found[1]


def _side_fields(relation: Relation, side: str) -> tuple[Field, ...]:
    names = {name: f"{side}.{name}" for name in (*relation.stream.schema.names, START)}
    return tuple(replace(field, value=field.value.rename(names)) for field in relation.fields)


def _split(
    context: Context, conditions: list[exp.Expr], left: Relation, right: Relation, pair: Relation
) -> tuple[list[tuple[Expr, Expr]], list[Expr]]:
    """Equalities between the sides become keys; the rest is a condition on pairs."""
    keys: list[tuple[Expr, Expr]] = []
    residual: list[Expr] = []
    for condition in conditions:
        if isinstance(condition, exp.EQ):
            sides = (
                _belongs(condition.this, left, right),
                _belongs(condition.expression, left, right),
            )
            if sides in (("l", "r"), ("r", "l")):
                left_key, right_key = condition.this, condition.expression
                if sides[0] == "r":
                    left_key, right_key = right_key, left_key
                keys.append(
                    (
                        RowReader(context, left).convert(left_key),
                        RowReader(context, right).convert(right_key),
                    )
                )
                continue
        residual.append(RowReader(context, pair).convert(condition))
    return keys, residual


def _belongs(node: exp.Expr, left: Relation, right: Relation) -> str:
    """`l`, `r`, or nothing: the one side whose columns an expression reads."""
    sides = set()
    for column in node.find_all(exp.Column):
        name, table = column.this.this, column.text("table")
        in_left, in_right = bool(left.find(name, table)), bool(right.find(name, table))
        if in_left == in_right:
            return ""
        sides.add("l" if in_left else "r")
    return sides.pop() if len(sides) == 1 else ""


def using_conditions(
    context: Context, node: exp.Expr, left: Relation, right: Relation
) -> list[exp.Expr]:
    """JOIN ... USING (a, b) as equalities."""
    equalities: list[exp.Expr] = []
    for name in node.args.get("using") or ():
        sides = []
        for relation in (left, right):
            found = relation.find(name.name)
            if len(found) != 1:
                hint = did_you_mean(name.name, relation.names())
                context.text.refuse_node(
                    name, f"USING: {name.name!r} is not one column of each side{hint}"
                )
            column = exp.Column(this=name.copy(), table=exp.to_identifier(found[0].table))
            column.meta.update(name.meta)
            sides.append(column)
        equalities.append(exp.EQ(this=sides[0], expression=sides[1]))
    return equalities


def on_conditions(node: exp.Expr) -> list[exp.Expr]:
    return conjuncts(node.args.get("on"))
