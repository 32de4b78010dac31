"""The `op` tree of a vector as a plan. Equal subtrees become one node, as a user would write
them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from thalweg.aggregates import find_aggregate
from thalweg.expr import Expr
from thalweg.model import INFINITY, Cti
from thalweg.plan import nodes
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.automata import Event, OneOf, Pattern, Repeat, Then, event
from thalweg.plan.nodes import Ingress, Named, Node, lifetime_schema
from thalweg.plan.properties import StreamProperties
from thalweg.testing._vector_data import PARTITION, Vector
from thalweg.testing._vector_expr import VectorError, translate, translate_keys
from thalweg.windows import SnapshotWindow

__all__ = ["ops_of", "order_matters", "plan_of"]

Op = Mapping[str, Any]

_LATE = {"throw": "error", "drop": "drop", "adjust": "adjust"}
_AGGREGATES = {
    "count": "count",
    "count_not_null": "count",
    "sum": "sum",
    "avg": "avg",
    "min": "min",
    "max": "max",
    "variance": "variance",
    "stddev": "stddev",
    "standard_deviation": "stddev",
    "percentile_cont": "percentile_cont",
    "percentile_disc": "percentile_disc",
    "first": "first",
    "last": "last",
}
_JOINS = {
    "join": "inner",
    "left_anti_join": "anti",
    "left_semi_join": "semi",
    "left_outer_join": "left",
    "full_outer_join": "full",
}


def ops_of(op: Op) -> Iterator[Op]:
    """Every operation of a tree."""
    yield op
    for name in ("in", "left", "right", "apply"):
        if name in op:
            yield from ops_of(op[name])


def order_matters(vector: Vector) -> bool:
    """Whether the meaning of the inputs depends on the order in which they come."""
    return any(op["op"] == "ingress" for op in ops_of(vector.op))


def plan_of(vector: Vector) -> Node:
    """The query of a case."""
    return _Builder(vector).build(vector.op, None)


class _Builder:
    def __init__(self, vector: Vector) -> None:
        self._vector = vector
        self._sources: dict[str, Node] = {}
        self._known: dict[tuple[str, Node | None], Node] = {}

    def build(self, op: Op, group: Node | None) -> Node:
        """The node of an operation; `group` is what `{"op": "group"}` stands for."""
        key = json.dumps(op, sort_keys=True), group
        if key not in self._known:
            self._known[key] = self._build(op, group)
        return self._known[key]

    def _build(self, op: Op, group: Node | None) -> Node:
        kind = op.get("op")
        if kind == "source":
            return self._source(op["name"])
        if kind == "ingress":
            if op["in"].get("op") != "source":
                raise VectorError("ingress must stand directly on a source")
            return self._source(op["in"]["name"])
        if kind == "group":
            if group is None:
                raise VectorError("group stands outside of a group_apply")
            return group
        if kind == "group_apply":
            return self._group_apply(op, group)
        if kind == "union":
            return nodes.Union(self.build(op["left"], group), self.build(op["right"], group))
        if kind == "clip_by":
            left, right = self.build(op["left"], group), self.build(op["right"], group)
            return nodes.ClipBy(left, right, *_keys(op, left, right))
        if kind in _JOINS:
            return _join(op, self.build(op["left"], group), self.build(op["right"], group))
        if kind not in _UNARY:
            raise VectorError(f"unknown operation {kind!r}")
        return _UNARY[kind](op, self.build(op["in"], group))

    def _source(self, name: str) -> Node:
        if name not in self._sources:
            if name not in self._vector.schemas:
                raise VectorError(f"there is no input for the source {name!r}")
            entries = [
                op
                for op in ops_of(self._vector.op)
                if op["op"] == "ingress" and op["in"].get("name") == name
            ]
            schema = self._vector.schemas[name]
            scoped = PARTITION in schema.names and any(
                isinstance(e, Cti) and e.scope is not None for e in self._vector.inputs[name]
            )
            ingress = _ingress(entries[0]) if entries else Ingress()
            groups = (PARTITION,) if scoped or ingress.partition else ()
            self._sources[name] = nodes.Source(
                name, schema, ingress, StreamProperties(group_ctis=bool(groups), group_keys=groups)
            )
        return self._sources[name]

    def _group_apply(self, op: Op, group: Node | None) -> Node:
        below = self.build(op["in"], group)
        inside = nodes.GroupInput(below.schema, below.properties)
        inner = self.build(op["apply"], inside)
        keys = _named(op["key"], lifetime_schema(below.schema))
        whole = nodes.GroupApply(below, keys, inside, inner)
        if "result" not in op:
            return whole
        return nodes.GroupApply(
            below, keys, inside, inner, _named(op["result"], lifetime_schema(whole.result_schema()))
        )


def _ingress(op: Op) -> Ingress:
    """A stream of the format is in order unless its policy says how far it may not be."""
    lag = op.get("low_watermark")
    return Ingress(
        late=_LATE[op.get("disorder", "throw")],
        disorder=op.get("reorder_latency", 0),
        period=op.get("punctuation_period"),
        partition=PARTITION if op.get("partitioned") else None,
        low_watermark=None if lag is None else (lag["period"], lag["lag"]),
    )


def _named(columns: Mapping[str, Any], schema: pa.Schema) -> Named:
    return tuple((name, translate(text, schema)) for name, text in columns.items())


def _expr(text: Any, below: Node) -> Expr:
    return translate(text, lifetime_schema(below.schema))


def _keys(op: Op, left: Node, right: Node) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    left_keys = translate_keys(op.get("key_left"), lifetime_schema(left.schema))
    right_keys = translate_keys(op.get("key_right"), lifetime_schema(right.schema))
    if len(left_keys) != len(right_keys):
        raise VectorError(f"{op['op']}: key_left and key_right differ in length")
    return left_keys, right_keys


def _join(op: Op, left: Node, right: Node) -> Node:
    how = _JOINS[op["op"]]
    both = nodes.Join(left, right, (), (), how="semi").pair_schema()
    predicate = translate(op["pred"], both) if op.get("pred") is not None else None
    result = _named(op["result"], both) if how in ("inner", "left", "full") else ()
    left_only = _one_side(op, "left_only", both, "l.") if how in ("left", "full") else ()
    right_only = _one_side(op, "right_only", both, "r.") if how == "full" else ()
    return nodes.Join(
        left, right, *_keys(op, left, right), predicate, how, result, left_only, right_only
    )


def _one_side(op: Op, which: str, both: pa.Schema, prefix: str) -> Named:
    bare = {name: name.removeprefix(prefix) for name in both.names if name.startswith(prefix)}
    return tuple((name, expr.rename(bare)) for name, expr in _named(op[which], both))


def _lasting(duration: int | None) -> int:
    return INFINITY if duration is None else duration


def _select_many(op: Op, below: Node) -> Node:
    repeat = None if "unnest" in op else _expr(op["repeat"], below)
    return nodes.SelectMany(
        below, _named(op["fields"], lifetime_schema(below.schema)), repeat, op.get("unnest")
    )


def _aggregate(op: Op, below: Node) -> Node:
    calls = op["aggs"]
    if len(calls) == 1:
        (only,) = calls.values()
        if (
            only["fn"] in ("arg_max", "arg_min") and "by" not in only
        ):  # the whole row of the largest value
            return nodes.TopK(below, 1, _expr(only["of"], below), only["fn"] == "arg_max")
    return nodes.WindowAggregate(
        below, SnapshotWindow(), tuple((name, _call(call, below)) for name, call in calls.items())
    )


def _call(call: Op, below: Node) -> AggregateCall:
    if call["fn"] not in _AGGREGATES:
        raise VectorError(f"unknown aggregate {call['fn']!r}")
    of = None if call["fn"] == "count" else _expr(call["of"], below)
    where = _expr(call["filter"], below) if call.get("filter") is not None else None
    aggregate = find_aggregate(_AGGREGATES[call["fn"]])
    assert aggregate is not None
    parameters = [call["p"]] if aggregate.parameters else []
    return AggregateCall(aggregate.make(*parameters), of, None, where)


def _detect(op: Op, below: Node) -> Node:
    plain = lifetime_schema(below.schema)
    kept = [part["acc"] for part in _parts(op["pattern"]) if "acc" in part]
    types = [translate(text, plain).type_in(plain) for text in kept if text in plain.names]
    kind = types[0] if op["init"] is None and types else pa.scalar(op["init"]).type
    schema = pa.schema([*plain, pa.field("r", kind)])
    return nodes.Detect(
        below,
        _pattern(op["pattern"], schema),
        op["max_duration"],
        (nodes.Register("r", kind, op["init"]),),
        overlap=op.get("overlap", True),
        simultaneous=op.get("simultaneous", "sequence"),
    )


def _parts(pattern: Op) -> Iterator[Op]:
    yield pattern
    for value in pattern.values():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Mapping):
                yield from _parts(part)


def _pattern(pattern: Op, schema: pa.Schema) -> Pattern:
    if "elem" in pattern:
        kept = {"r": translate(pattern["acc"], schema)} if "acc" in pattern else None
        return event(translate(pattern["elem"], schema), kept)
    if "any" in pattern or "none" in pattern:
        text = pattern["any"] if "any" in pattern else pattern["none"]
        return Event(translate(text, schema), absent="none" in pattern)
    if "seq" in pattern or "or" in pattern:
        kind = Then if "seq" in pattern else OneOf
        return kind(tuple(_pattern(part, schema) for part in pattern.get("seq") or pattern["or"]))
    repeats = {"star": (0, False), "plus": (1, False), "opt": (0, True)}
    (name,) = pattern
    if name not in repeats:
        raise VectorError(f"unknown part of a pattern: {name!r}")
    least, once = repeats[name]
    return Repeat(_pattern(pattern[name], schema), least, once)


_UNARY: dict[str, Callable[[Op, Node], Node]] = {
    "detect": _detect,
    "where": lambda op, below: nodes.Where(below, _expr(op["pred"], below)),
    "select": lambda op, below: nodes.Select(
        below, _named(op["fields"], lifetime_schema(below.schema))
    ),
    "select_many": _select_many,
    "set_duration": lambda op, below: nodes.SetDuration(below, _lasting(op["duration"])),
    "alter_lifetime": lambda op, below: nodes.AlterLifetime(
        below, _expr(op["start"], below), _lasting(op["duration"])
    ),
    "shift": lambda op, below: nodes.Shift(
        below, op["by"] if isinstance(op["by"], int) else _expr(op["by"], below)
    ),
    "extend": lambda op, below: nodes.Extend(below, op["by"]),
    "clip_duration": lambda op, below: nodes.ClipDuration(below, op["limit"]),
    "point_at_end": lambda _, below: nodes.PointAtEnd(below),
    "chop": lambda op, below: nodes.Chop(below, op["period"], op.get("offset", 0)),
    "stitch": lambda _, below: nodes.Stitch(below),
    "quantize": lambda op, below: nodes.Quantize(
        below, op["size"], op["hop"], op.get("progress"), op.get("offset", 0)
    ),
    "hopping_lifetime": lambda op, below: nodes.HoppingLifetime(
        below, op["size"], op["hop"], op.get("offset", 0)
    ),
    "session": lambda op, below: nodes.SessionLifetime(
        below, op["timeout"], op.get("max_duration")
    ),
    "aggregate": _aggregate,
    "topk": lambda op, below: nodes.TopK(
        below, op["k"], _expr(op["by"], below), op.get("descending", True), op.get("rank")
    ),
    "distinct": lambda _, below: nodes.Distinct(below),
}
