"""The law of every operator: the final table does not depend on the physical form of the input, and
is the oracle's.

One table, `LAWS`: name -> how the query is built, and which logical inputs it gets. Every law is
played over several random inputs and forms of each; the quick run plays each input at one
consistency, the slow one at all of them. A failure prints the smallest form that shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.operators.pattern_laws import patterns
from tests.operators.window_join_laws import window_joins
from thalweg.expr import col, lit
from thalweg.model import INFINITY, Element, Row, cti, insert
from thalweg.plan import aggregates as agg
from thalweg.plan.aggregates import AggregateCall, count, max_, sum_
from thalweg.plan.nodes import (
    JOIN_KINDS,
    AlterLifetime,
    Chop,
    ClipBy,
    ClipDuration,
    Describe,
    Distinct,
    Extend,
    GroupApply,
    GroupInput,
    HoppingLifetime,
    InOrder,
    Join,
    Node,
    PointAtEnd,
    Quantize,
    Select,
    SelectMany,
    SessionLifetime,
    SetDuration,
    Shift,
    Source,
    Stitch,
    TopK,
    Union,
    Where,
    WindowAggregate,
    walk,
)
from thalweg.plan.nodes.panes import in_panes
from thalweg.plan.properties import StreamProperties
from thalweg.testing import CONSISTENCIES, Inputs, assert_physically_independent
from thalweg.testing.strategies import queries, rows
from thalweg.windows import HoppingWindow, SessionWindow, SnapshotWindow, Window

FORMS = 4
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
WIDE = pa.schema(
    [
        ("k", pa.int64()),
        ("v", pa.int64()),
        ("f", pa.float64()),
        ("t", pa.string()),
        ("items", pa.list_(pa.int64())),
    ]
)
A, B, W = Source("a", SCHEMA), Source("b", SCHEMA), Source("w", WIDE)
GROUPED = Source("g", SCHEMA, declared=StreamProperties(group_ctis=True, group_keys=("k",)))

SNAPSHOT, TUMBLING, HOPPING, GAPPED = (
    SnapshotWindow(),
    HoppingWindow(8, 8),
    HoppingWindow(9, 3, 1),
    HoppingWindow(3, 7),
)
SESSION = SessionWindow(5)
WINDOWS: dict[str, Window] = {
    "snapshot": SNAPSHOT,
    "tumbling": TUMBLING,
    "hopping": HOPPING,
    "gapped": GAPPED,
    "session": SESSION,
}
N = (("n", count()),)


# ------------------------------------------------------------------------------------------------
# inputs


def table(
    random: Random,
    schema: pa.Schema = SCHEMA,
    *,
    size: int = 10,
    endless: float = 0,
    null: float = 0,
) -> list[Row]:
    """A table on a narrow stretch of time, so that starts coincide, lifetimes touch and rows
    repeat."""
    made: list[Row] = []
    for _ in range(0 if random.random() < 0.05 else random.randint(2, size)):
        if made and random.random() < 0.2:
            made.append(random.choice(made))
            continue
        start = random.choice([random.randint(0, 30), random.choice(made)[1] if made else 0])
        start = random.randint(0, 30) if start == INFINITY else start
        end = INFINITY if random.random() < endless else start + random.randint(1, 10)
        made.append(
            (start, end, {field.name: _value(random, field.type, null) for field in schema})
        )
    return made


def _value(random: Random, kind: pa.DataType, null: float) -> Any:
    if random.random() < null:
        return None
    if pa.types.is_list(kind):
        return [random.randint(0, 2) for _ in range(random.randint(0, 3))]
    if pa.types.is_string(kind):
        return random.choice(["x", "y", "z"])
    return random.randint(-6, 6) / 4 if pa.types.is_floating(kind) else random.randint(0, 3)


def finite(random: Random) -> Inputs:
    return {"a": table(random), "b": table(random), "w": table(random, WIDE, null=0.2)}


def endless(random: Random) -> Inputs:
    return {
        "a": table(random, endless=0.2),
        "b": table(random, endless=0.2),
        "w": table(random, WIDE, endless=0.2, null=0.2),
    }


def nulls(random: Random) -> Inputs:
    return {"a": table(random, endless=0.1, null=0.3), "b": table(random, endless=0.1, null=0.3)}


def scoped(random: Random) -> Inputs:
    """Elements by group, each group with promises of its own, then a common one."""
    elements: list[Element] = []
    for key in (0, 1, None):
        for start, end, payload in sorted(table(random, size=5), key=lambda row: row[0]):
            elements += [cti(start, {"k": key}), insert({**payload, "k": key}, start, end)]
        elements.append(cti(random.choice([25, 40, None]), {"k": key}))
    return {"g": [*elements, cti(random.randint(0, 50))], "b": table(random, null=0.2)}


@dataclass(frozen=True)
class Law:
    build: Callable[[], Node]
    inputs: Callable[[Random], Inputs] = finite


# ------------------------------------------------------------------------------------------------
# span operators

LAWS: dict[str, Law] = {
    "source": Law(lambda: A, endless),
    "where": Law(lambda: Where(A, col("v") > 1), nulls),
    "where by start": Law(lambda: Where(A, col("_start") % 2 == 0), endless),
    "select": Law(lambda: Select(A, (("x", col("v") + col("k")),)), nulls),
    "select start": Law(
        lambda: Select(A, (("x", col("_start") + col("v")), ("c", lit("c")))), endless
    ),
    "select that makes duplicates": Law(lambda: Select(A, (("c", lit(1)),)), endless),
    "select_many repeat": Law(lambda: SelectMany(A, (("v", col("v")),), repeat=col("v")), nulls),
    "select_many unnest": Law(
        lambda: SelectMany(W, (("k", col("k")), ("item", col("items"))), unnest="items"), endless
    ),
    "set_duration": Law(lambda: SetDuration(A, 5), endless),
    "set_duration for ever": Law(lambda: SetDuration(A, INFINITY)),
    "alter_lifetime, monotone": Law(lambda: AlterLifetime(A, col("_start") * 2 + 3, 4), endless),
    "alter_lifetime, one instant": Law(lambda: AlterLifetime(A, lit(50), 1), endless),
    "alter_lifetime, any start": Law(
        lambda: AlterLifetime(A, col("_start") - col("v") * 4, 3), endless
    ),
    "describe": Law(lambda: Describe(A, 5, 2), endless),
    "in order": Law(lambda: InOrder(A), endless),
    "in order, of points": Law(lambda: InOrder(SetDuration(A, 1)), finite),
    "shift": Law(lambda: Shift(A, 7), endless),
    "shift back": Law(lambda: Shift(A, -7), endless),
    "shift by an expression": Law(lambda: Shift(A, col("v") * 3 - 4), endless),
    "extend": Law(lambda: Extend(A, 4), endless),
    "extend by less than nothing": Law(lambda: Extend(A, -4), endless),
    "clip_duration": Law(lambda: ClipDuration(A, 4), endless),
    "point_at_end": Law(lambda: PointAtEnd(A), endless),
    "chop": Law(lambda: Chop(A, 4)),
    "chop with offset": Law(lambda: Chop(A, 5, 2)),
    "hopping_lifetime": Law(lambda: HoppingLifetime(A, 8, 4), endless),
    "hopping_lifetime with offset": Law(lambda: HoppingLifetime(A, 6, 6, 1), endless),
    "quantize, tumbling": Law(lambda: Quantize(A, 6, 6), endless),
    "quantize, hopping": Law(lambda: Quantize(A, 12, 4), endless),
    "quantize with progress and offset": Law(lambda: Quantize(A, 12, 6, 2, 1), endless),
    "session_lifetime": Law(lambda: SessionLifetime(A, 4), endless),
    "session_lifetime per group": Law(lambda: SessionLifetime(A, 6, keys=("k",)), nulls),
    "session_lifetime, limited": Law(lambda: SessionLifetime(A, 8, 7), endless),
    "session_lifetime, limited, per group": Law(lambda: SessionLifetime(A, 10, 9, ("k",)), nulls),
    "union": Law(lambda: Union(A, B), nulls),
    "union with itself": Law(lambda: Union(A, Shift(A, 2)), endless),
}

# ------------------------------------------------------------------------------------------------
# joins

K, NO_KEY = (col("k"),), ()
PAIR = (("k", col("l.k")), ("x", col("l.v")), ("y", col("r.v")))
LEFT_ONLY = (("k", col("k")), ("x", col("v")), ("y", lit(None)))
RIGHT_ONLY = (("k", col("k")), ("x", lit(None)), ("y", col("v")))


def join(
    how: str,
    left: Node = A,
    right: Node = B,
    *,
    predicate: Any = None,
    keys: Any = K,
    right_keys: Any = None,
) -> Join:
    return Join(
        left,
        right,
        keys,
        keys if right_keys is None else right_keys,
        predicate,
        how,
        PAIR,
        LEFT_ONLY,
        RIGHT_ONLY,
    )


def laws_of_join(how: str) -> dict[str, Law]:
    halves = (col("v") % 2, col("k"))
    return {
        f"join {how}": Law(lambda: join(how), endless),
        f"join {how} with null keys": Law(lambda: join(how), nulls),
        f"join {how} with a predicate": Law(
            lambda: join(how, predicate=col("l.v") < col("r.v")), nulls
        ),
        f"join {how} without keys": Law(
            lambda: join(how, predicate=col("l.v") == col("r.k"), keys=NO_KEY), finite
        ),
        f"join {how} on expressions": Law(
            lambda: join(how, keys=halves, right_keys=(col("k"), col("v"))), finite
        ),
        f"join {how} with itself": Law(lambda: join(how, A, Shift(A, 2)), endless),
    }


for _how in JOIN_KINDS:
    LAWS |= laws_of_join(_how)

LAWS |= {
    "join, cross": Law(lambda: join("inner", keys=NO_KEY), finite),
    "join, predicate on starts": Law(
        lambda: join("left", predicate=col("l._start") < col("r._start")), endless
    ),
    "clip_by": Law(lambda: ClipBy(A, B, K, K), endless),
    "clip_by with null keys": Law(lambda: ClipBy(A, B, K, K), nulls),
    "clip_by itself": Law(lambda: ClipBy(SetDuration(A, INFINITY), A, K, K), finite),
    "clip_by one stream": Law(lambda: ClipBy(A, A, K, K), endless),
    "clip_by without keys": Law(lambda: ClipBy(A, B, NO_KEY, NO_KEY), endless),
    "stitch": Law(lambda: Stitch(Select(A, (("v", col("v") % 2),))), endless),
    "stitch with many duplicates": Law(lambda: Stitch(Select(A, (("c", lit(1)),))), finite),
    "distinct": Law(lambda: Distinct(Select(A, (("v", col("v") % 2),))), endless),
    "distinct with nulls": Law(lambda: Distinct(A), nulls),
}

LAWS |= {
    name: Law(build, nulls if " left" in name else finite)
    for name, build in window_joins(A, B).items()
}
LAWS |= {name: Law(build, nulls) for name, build in patterns(A, B).items()}

# ------------------------------------------------------------------------------------------------
# windows, aggregates

AGGREGATES: dict[str, AggregateCall] = {
    "count": count(),
    "count of": count("v"),
    "sum": sum_("v"),
    "sum of floats": sum_("f"),
    "avg": agg.avg("v"),
    "avg of floats": agg.avg("f"),
    "min": agg.min_("v"),
    "min of text": agg.min_("t"),
    "max": max_("f"),
    "variance": agg.variance("v"),
    "stddev": agg.stddev("f"),
    "percentile": agg.percentile("v", 0.3),
    "percentile of floats": agg.percentile("f", 0.75),
    "percentile, discrete": agg.percentile("f", 0.5, discrete=True),
    "first": agg.first("v"),
    "first text": agg.first("t"),
    "last": agg.last("f"),
    "arg_max": agg.arg_max("t", by="v"),
    "arg_min": agg.arg_min("v", by="t"),
}
FILTERED = tuple(
    (name.replace(" ", "_"), replace(c, where=col("k") > 1)) for name, c in AGGREGATES.items()
)


def aggregate(
    window: Window,
    *calls: tuple[str, AggregateCall],
    node: Node = W,
    keys: tuple[str, ...] = (),
    **more: Any,
) -> Node:
    return WindowAggregate(node, window, calls or N, keys, **more)


def laws_of_window(kind: str, window: Window) -> dict[str, Law]:
    inputs = endless if kind in ("snapshot", "session") else finite
    every = tuple((name.replace(" ", "_"), call) for name, call in AGGREGATES.items())
    rank = col("v") + col("_start")
    laws = {
        f"all aggregates over {kind}, no keys": Law(lambda: aggregate(window, *every), inputs),
        f"filtered aggregates over {kind}": Law(
            lambda: aggregate(window, *FILTERED, keys=("t",)), inputs
        ),
        f"aggregate of the start over {kind}": Law(
            lambda: aggregate(window, ("x", max_(rank)), node=A), inputs
        ),
        f"two keys over {kind}": Law(
            lambda: aggregate(window, ("n", count()), ("s", sum_("v")), keys=("k", "t")), inputs
        ),
    }
    if (
        kind == "session"
    ):  # a session is closed by its rows alone: top-k over one is refused when it is built
        return laws
    return laws | {
        f"top_k over {kind}": Law(lambda: TopK(A, 2, col("v"), window=window), inputs),
        f"top_k per group, ranked, over {kind}": Law(
            lambda: TopK(A, 1, rank, descending=False, rank="r", keys=("k",), window=window), inputs
        ),
    }


def law_of_aggregate(call: AggregateCall, kind: str) -> Law:
    return Law(
        lambda: aggregate(WINDOWS[kind], ("x", call), keys=("k",)),
        finite if kind == "hopping" else endless,
    )


for _name, _call in AGGREGATES.items():
    LAWS |= {
        f"{_name} over {_kind}": law_of_aggregate(_call, _kind)
        for _kind in ("snapshot", "hopping", "session")
    }
for _kind, _window in WINDOWS.items():
    LAWS |= laws_of_window(_kind, _window)

LAWS |= {
    "top_k by nulls": Law(lambda: TopK(A, 2, col("v"), rank="r"), nulls),
    "fill": Law(
        lambda: aggregate(TUMBLING, *N, ("s", sum_("v")), node=A, keys=("k",), fill=((0,), (9,))),
        finite,
    ),
    "fill, hopping, filtered": Law(
        lambda: aggregate(
            HOPPING, ("n", count(where=col("v") > 1)), node=A, keys=("k",), fill=((1,),)
        ),
        finite,
    ),
    "fill, gapped": Law(
        lambda: aggregate(GAPPED, *N, node=A, keys=("k", "v"), fill=((1, 1), (2, 0))), finite
    ),
    "fill without keys": Law(lambda: aggregate(TUMBLING, *N, node=A, fill=((),)), finite),
}

# ------------------------------------------------------------------------------------------------
# groups, composites


def paned(node: Node) -> Node:
    halves = in_panes(node)
    assert halves is not None
    return halves


def group_apply(
    inner: Callable[[GroupInput], Node],
    node: Node = A,
    key: Any = None,
    result: Any = None,
    name: str = "g",
) -> Node:
    group = GroupInput(node.schema, node.properties)
    return GroupApply(
        node, ((name, col("k") if key is None else key),), group, inner(group), result
    )


def nested(node: Node) -> Node:
    return group_apply(
        lambda one: group_apply(
            lambda two: aggregate(SNAPSHOT, *N, node=two), one, col("v"), name="h"
        ),
        node,
    )


RESULT = (("x", col("n") * 10 + col("key_g")),)

LAWS |= {
    "group, snapshot": Law(lambda: group_apply(lambda g: aggregate(SNAPSHOT, *N, node=g)), nulls),
    "group, hopping, with a result": Law(
        lambda: group_apply(lambda g: aggregate(HOPPING, *N, node=g), result=RESULT), finite
    ),
    "group by an expression": Law(
        lambda: group_apply(lambda g: aggregate(SESSION, *N, node=g), key=col("v") % 2), endless
    ),
    "group, nested": Law(lambda: nested(A), nulls),
    "group, self join": Law(
        lambda: group_apply(lambda g: join("left", g, Shift(g, 3), keys=NO_KEY)), finite
    ),
    "group, two windows joined": Law(
        lambda: group_apply(
            lambda g: Join(
                Shift(aggregate(SNAPSHOT, *N, node=g), 1),
                SetDuration(aggregate(SNAPSHOT, *N, node=g), 1),
                (),
                (),
                result=(("f", col("l.n")), ("t", col("r.n"))),
            )
        ),
        finite,
    ),
    "group, span operators": Law(
        lambda: group_apply(lambda g: Extend(Where(g, col("v") > 0), -2)), nulls
    ),
    "group, top_k": Law(lambda: group_apply(lambda g: TopK(g, 1, col("v"))), nulls),
    "group, session": Law(lambda: group_apply(lambda g: SessionLifetime(g, 5)), nulls),
    "group, stitch": Law(
        lambda: group_apply(lambda g: Stitch(Select(g, (("c", lit(1)),)))), finite
    ),
    "panes": Law(
        lambda: paned(aggregate(HOPPING, *N, ("s", sum_("v")), node=A, keys=("k",))), finite
    ),
    "panes, tumbling, no keys": Law(
        lambda: paned(aggregate(TUMBLING, *N, ("s", agg.avg("v", where="k > 0")), node=A)), finite
    ),
    "group, distinct": Law(lambda: group_apply(Distinct), nulls),
    "group, clip_by": Law(
        lambda: group_apply(lambda g: ClipBy(g, Where(g, col("v") == 0), (), ())), finite
    ),
    "group, clip_by one stream": Law(lambda: group_apply(lambda g: ClipBy(g, g, (), ())), finite),
    "window after join": Law(
        lambda: aggregate(HOPPING, *N, ("s", sum_("y")), node=join("inner"), keys=("k",)), finite
    ),
    "snapshot after outer join": Law(
        lambda: aggregate(SNAPSHOT, *N, ("s", sum_("y")), node=join("full"), keys=("k",)), nulls
    ),
    "session after anti join": Law(
        lambda: aggregate(SESSION, *N, node=join("anti"), keys=("k",)), endless
    ),
    "join after window": Law(
        lambda: Join(
            aggregate(TUMBLING, *N, node=A, keys=("k",)),
            B,
            K,
            K,
            how="left",
            result=(("n", col("n")), ("v", col("v"))),
            left_only=(("n", col("n")), ("v", lit(None))),
        ),
        finite,
    ),
    "join of two windows": Law(
        lambda: Join(
            aggregate(HOPPING, *N, node=A, keys=("k",)),
            aggregate(SNAPSHOT, ("m", max_("v")), node=B, keys=("k",)),
            K,
            K,
            result=(("n", col("n")), ("m", col("m"))),
        ),
        finite,
    ),
    "rows against their own window": Law(
        lambda: Join(
            A,
            aggregate(TUMBLING, ("m", max_("v")), node=A, keys=("k",)),
            K,
            K,
            col("v") == col("m"),
            "semi",
        ),
        finite,
    ),
    "aggregate of aggregate": Law(
        lambda: aggregate(
            TUMBLING,
            ("m", max_("n")),
            ("s", sum_("n")),
            node=aggregate(SNAPSHOT, *N, node=A, keys=("k",)),
        ),
        finite,
    ),
    "snapshot of hopping": Law(
        lambda: aggregate(
            SNAPSHOT, ("s", sum_("n")), node=aggregate(HOPPING, *N, node=A, keys=("k",))
        ),
        finite,
    ),
    "hopping of session": Law(
        lambda: aggregate(
            TUMBLING, *N, ("l", agg.last("n")), node=aggregate(SESSION, *N, node=A, keys=("k",))
        ),
        endless,
    ),
    "session of snapshot": Law(
        lambda: aggregate(
            SESSION, ("s", sum_("n")), node=aggregate(SNAPSHOT, *N, node=A, keys=("k",))
        ),
        endless,
    ),
    "top_k of aggregate": Law(
        lambda: TopK(aggregate(TUMBLING, *N, node=A, keys=("k",)), 1, col("n")), finite
    ),
    "where after aggregate": Law(
        lambda: Where(aggregate(HOPPING, *N, node=A, keys=("k",)), col("n") > 1), finite
    ),
    "union of aggregates": Law(
        lambda: Union(aggregate(SNAPSHOT, *N, node=A), aggregate(TUMBLING, *N, node=B)), finite
    ),
    "points at the ends of windows": Law(
        lambda: PointAtEnd(aggregate(TUMBLING, *N, node=A)), finite
    ),
    "shorter windows": Law(lambda: Extend(aggregate(SNAPSHOT, *N, node=A), -2), endless),
    "stitch undoes chop": Law(lambda: Stitch(Chop(A, 4)), finite),
    "chopped snapshots": Law(lambda: aggregate(SNAPSHOT, *N, node=Chop(A, 5)), finite),
    "hopping lifetimes counted": Law(
        lambda: aggregate(SNAPSHOT, *N, node=HoppingLifetime(A, 8, 4), keys=("k",)), endless
    ),
    "quantized and counted": Law(lambda: aggregate(SNAPSHOT, *N, node=Quantize(A, 8, 4)), endless),
    "sessions counted": Law(
        lambda: aggregate(SNAPSHOT, *N, node=SessionLifetime(A, 6, 9, ("k",)), keys=("k",)), nulls
    ),
    "clip_by, then join": Law(lambda: join("inner", ClipBy(A, A, K, K), B), endless),
    "distinct after join": Law(lambda: Distinct(join("left")), endless),
    "group after join": Law(
        lambda: group_apply(lambda g: aggregate(SNAPSHOT, *N, node=g), join("left")), nulls
    ),
    "join of groups": Law(
        lambda: Join(
            nested(A),
            B,
            (col("g"), col("h")),
            (col("k"), col("v")),
            how="left",
            result=(("n", col("n")), ("v", col("r.v"))),
            left_only=(("n", col("n")), ("v", lit(None))),
        ),
        finite,
    ),
}

# --------------------------------------------------------------------------------------------
# promises for single groups

LAWS |= {
    f"scoped promises, {name}": Law(build, scoped)
    for name, build in {
        "where": lambda: Where(GROUPED, col("v") > 0),
        "select that keeps the key": lambda: Select(
            GROUPED, (("k", col("k")), ("x", col("v") + 1))
        ),
        "select that loses the key": lambda: Select(GROUPED, (("x", col("v") + 1),)),
        "select that renames the key": lambda: Select(GROUPED, (("k", col("v")), ("x", col("k")))),
        "shift": lambda: Shift(GROUPED, 5),
        "shift by an expression": lambda: Shift(GROUPED, col("v")),
        "extend by less than nothing": lambda: Extend(GROUPED, -3),
        "clip_duration": lambda: ClipDuration(GROUPED, 3),
        "point_at_end": lambda: PointAtEnd(GROUPED),
        "chop": lambda: Chop(GROUPED, 4),
        "hopping_lifetime": lambda: HoppingLifetime(GROUPED, 8, 4),
        "quantize": lambda: Quantize(GROUPED, 8, 4),
        "session_lifetime": lambda: SessionLifetime(GROUPED, 5, keys=("k",)),
        "session_lifetime over all": lambda: SessionLifetime(GROUPED, 5),
        "snapshot by the same key": lambda: aggregate(SNAPSHOT, *N, node=GROUPED, keys=("k",)),
        "hopping by the same key": lambda: aggregate(HOPPING, *N, node=GROUPED, keys=("k",)),
        "tumbling by more keys": lambda: aggregate(TUMBLING, *N, node=GROUPED, keys=("v", "k")),
        "hopping minimum": lambda: aggregate(
            HOPPING, ("least", agg.min_("v")), node=GROUPED, keys=("k",)
        ),
        "hopping top_k": lambda: TopK(GROUPED, 1, col("v"), keys=("k",), window=HOPPING),
        "session by the same key": lambda: aggregate(SESSION, *N, node=GROUPED, keys=("k",)),
        "snapshot by another key": lambda: aggregate(SNAPSHOT, *N, node=GROUPED, keys=("v",)),
        "hopping over all": lambda: aggregate(HOPPING, *N, node=GROUPED),
        "filled": lambda: aggregate(TUMBLING, *N, node=GROUPED, keys=("k",), fill=((0,), (7,))),
        "top_k": lambda: TopK(GROUPED, 1, col("v"), keys=("k",)),
        "top_k over all": lambda: TopK(GROUPED, 1, col("v")),
        "distinct": lambda: Distinct(GROUPED),
        "stitch": lambda: Stitch(GROUPED),
        "union": lambda: Union(GROUPED, B),
        "join": lambda: join("left", GROUPED, B),
        "anti join from the other side": lambda: join("anti", B, GROUPED),
        "clip_by": lambda: ClipBy(GROUPED, B, K, K),
        "clip_by one stream": lambda: ClipBy(GROUPED, GROUPED, K, K),
        "clip_by from the other side": lambda: ClipBy(B, GROUPED, K, K),
        "group": lambda: group_apply(lambda g: aggregate(TUMBLING, *N, node=g), GROUPED),
        "group by another key": lambda: group_apply(
            lambda g: aggregate(SNAPSHOT, *N, node=g), GROUPED, col("v")
        ),
        "group with a result": lambda: group_apply(
            lambda g: aggregate(SNAPSHOT, *N, node=g), GROUPED, result=RESULT
        ),
        "group, nested": lambda: nested(GROUPED),
        "aggregate of aggregate": lambda: aggregate(
            SNAPSHOT, *N, node=aggregate(HOPPING, *N, node=GROUPED, keys=("k",)), keys=("k",)
        ),
    }.items()
}


# ------------------------------------------------------------------------------------------------
# the tests


def used(query: Node, inputs: Inputs) -> Inputs:
    names = {node.name for node in walk(query) if isinstance(node, Source)}
    return {name: given_ for name, given_ in inputs.items() if name in names}


def check(name: str, seeds: range, forms: int, *consistency: str) -> None:
    law = LAWS[name]
    query = law.build()
    for seed in seeds:
        inputs = law.inputs(Random(f"{name}/{seed}"))
        levels = consistency or (CONSISTENCIES[seed % len(CONSISTENCIES)],)
        assert_physically_independent(
            query, used(query, inputs), forms=forms, seed=seed, consistency=levels
        )


@pytest.mark.parametrize("name", LAWS)
def test_law(name: str) -> None:
    check(name, range(len(CONSISTENCIES)), FORMS)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_law_at_length(name: str) -> None:
    check(name, range(100, 120), 30, *CONSISTENCIES)


@given(queries(A, B), rows(max_rows=5), rows(max_rows=5), st.integers(0, 1000))
@settings(
    max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
def test_any_query(query: Node, one: list[Row], two: list[Row], seed: int) -> None:
    assert_physically_independent(query, used(query, {"a": one, "b": two}), forms=4, seed=seed)


@pytest.mark.slow
@given(queries(A, B, depth=5), rows(), rows(), st.integers(0, 1000))
@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_query_at_length(query: Node, one: list[Row], two: list[Row], seed: int) -> None:
    assert_physically_independent(query, used(query, {"a": one, "b": two}), forms=8, seed=seed)
