"""The operators as a table: how each is divided on Spark, what it keeps, what it promises.

One example of each class, and everything else is what the class says of itself; README.md shows the
result, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from thalweg.expr import col
from thalweg.plan import nodes
from thalweg.plan.aggregates import count
from thalweg.plan.join_kinds import JOIN_KINDS
from thalweg.plan.nodes import Node
from thalweg.plan.properties import StreamProperties
from thalweg.windows import HoppingWindow, SessionWindow, SlideByTuple, SnapshotWindow

__all__ = ["examples", "operators_table"]

_HEAD = "| operator | in-process | on Spark | keeps | promises, once its inputs have promised t |"


def examples() -> Iterator[tuple[str, Node]]:
    """The words of the fluent API, and a node that they build."""
    rows = nodes.Source("s", pa.schema([("k", pa.int64()), ("v", pa.int64())]))
    other = nodes.Source("o", rows.schema)
    keys, value = (col("k"),), (("v", col("v")),)
    calls = (("n", count()),)
    yield "where", nodes.Where(rows, col("v") > 1)
    yield "select, with_columns, drop, rename", nodes.Select(rows, value)
    yield "select_many", nodes.SelectMany(rows, value, col("v"))
    yield "union", nodes.Union(rows, other)
    yield "set_duration, points", nodes.SetDuration(rows, 5)
    yield "alter_lifetime", nodes.AlterLifetime(rows, col("v"), 5)
    yield "shift", nodes.Shift(rows, 5)
    yield "extend", nodes.Extend(rows, 5)
    yield "clip_duration", nodes.ClipDuration(rows, 5)
    yield "point_at_end", nodes.PointAtEnd(rows)
    yield "chop", nodes.Chop(rows, 5)
    yield "hopping_lifetime", nodes.HoppingLifetime(rows, 10, 5)
    yield "quantize", nodes.Quantize(rows, 10, 5)
    yield "session_lifetime", nodes.SessionLifetime(rows, 5, None, ("k",))
    yield "clip_by, edges", nodes.ClipBy(rows, other, keys, keys)
    yield "stitch", nodes.Stitch(rows)
    yield "distinct", nodes.Distinct(rows)
    yield "describe", nodes.Describe(rows, 10)
    yield "in_order", nodes.InOrder(rows)
    yield "number_rows", nodes.NumberRows(rows, ("k",))
    arriving = nodes.Source("a", rows.schema, declared=StreamProperties(insert_only=True))
    yield "stamp_arrivals, sliding over arrival()", nodes.StampArrivals(arriving, 5)
    for name, window in (
        ("snapshot", SnapshotWindow()),
        ("tumbling, hopping, sliding over time", HoppingWindow(10, 5)),
        ("session", SessionWindow(5)),
    ):
        yield f"{name}: aggregate", nodes.WindowAggregate(rows, window, calls, ("k",))
    yield (
        "tumbling, hopping: fill",
        nodes.WindowAggregate(rows, HoppingWindow(5, 5), calls, ("k",), ((1,),)),
    )
    yield "slide_by_tuple: aggregate", nodes.WidAggregate(rows, SlideByTuple(5), calls, ("k",))
    yield "top_k", nodes.TopK(rows, 3, col("v"), keys=("k",))
    lasting = nodes.Source("l", rows.schema, declared=StreamProperties(firm_ends=True))
    for how in ("inner", "semi"):
        result = value if JOIN_KINDS[how].pairs else ()
        pairs = tuple((name, col(f"l.{name}")) for name, _ in result)
        yield f"{how} join", nodes.Join(lasting, other, keys, keys, how=how, result=pairs)


def operators_table() -> str:
    """The table, as Markdown."""
    lines = [_HEAD, "| --- | --- | --- | --- | --- |"]
    for name, node in examples():
        kept = node.state or "nothing"
        lines.append(f"| {name} | yes | {_divided(node)} | {kept} | {node.promise} |")
    return "\n".join(lines)


def _divided(node: Node) -> str:
    if node.divided_by is None:
        return "before the exchange" if node.before_exchange else "in every bucket"
    return "by key" if all(node.divided_by) else "in one bucket"
