"""The fluent API: what it builds, what it means, and what it refuses on which line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any, cast

import pyarrow as pa
import pytest

from thalweg.errors import (
    ExpressionError,
    PlanError,
    TypeMismatchError,
    UnknownColumnError,
    WindowError,
)
from thalweg.expr import col
from thalweg.model import INFINITY, Row
from thalweg.plan import nodes
from thalweg.plan.aggregates import count, max_, sum_
from thalweg.plan.explain import plan_text
from thalweg.stream import Stream, source
from thalweg.testing import assert_same_table, oracle
from thalweg.windows import HoppingWindow, SessionWindow, SnapshotWindow

PACKETS = source("packets", {"src": "string", "len": "int64"})
HOSTS = source("hosts", {"src": "string", "name": "string", "len": "int64"})


def rows_of(query: Stream, **tables: list[Row]) -> list[Row]:
    return oracle(query.node, tables)


# ------------------------------------------------------------------------------------------------
# sources


def test_a_source_says_how_events_are_admitted() -> None:
    stream = source(
        "s",
        {"p": "int64"},
        late="drop",
        disorder="1 min",
        period=10,
        partition="p",
        low_watermark=(timedelta(seconds=1), 0),
    )
    assert isinstance(stream.node, nodes.Source)
    assert stream.node.ingress == nodes.Ingress("drop", 60_000_000, 10, "p", (1_000_000, 0))
    assert stream.properties.group_ctis and stream.properties.group_keys == ("p",)


def test_a_source_declares_facts() -> None:
    facts = source(
        "s",
        {"v": "int64", "g": "text"},
        ordered=True,
        insert_only=True,
        constant_duration="1 s",
        group_ctis="g",
    ).properties
    assert (
        facts.ordered
        and facts.insert_only
        and facts.firm_ends
        and facts.constant_duration == 1_000_000
    )
    assert facts.group_keys == ("g",)


def test_column_types_are_text_or_arrow() -> None:
    kinds: dict[str, str | pa.DataType] = {
        "a": "int",
        "b": "float",
        "c": "text",
        "d": "bool",
        "e": pa.list_(pa.int8()),
        "f": "timestamp[us]",
    }
    assert source("s", kinds).schema.types == [
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.bool_(),
        pa.list_(pa.int8()),
        pa.timestamp("us"),
    ]
    schema = pa.schema([("x", pa.int32())])
    assert source("s", schema).schema == schema
    never_null = pa.schema([pa.field("x", pa.int32(), nullable=False)])
    assert source("s", never_null).schema == schema, "rows to come may have nulls"


def test_a_stream_is_immutable_and_prints_itself() -> None:
    with pytest.raises(FrozenInstanceError):
        PACKETS.node = HOSTS.node  # type: ignore[misc]
    assert repr(PACKETS) == "<Stream source (src string, len int64)>"
    assert repr(PACKETS.group_by("src")) == "<GroupedStream by src of (src string, len int64)>"
    assert (
        repr(PACKETS.group_by("src").tumbling(10))
        == "<WindowedStream tumbling(10) by src of (src string, len int64)>"
    )


# ------------------------------------------------------------------------------------------------
# what a method builds

SPELLINGS: list[tuple[Stream, str]] = [
    (PACKETS.where(col("len") > 40), "where-1  len > 40"),
    (PACKETS.select("len", "src"), "select-1  len, src"),
    (PACKETS.select("src", total="len + 1"), "select-1  src, total = len + 1"),
    (PACKETS.select(col("src"), at=col("_start")), "select-1  src, at = _start"),
    (
        PACKETS.with_columns(len="len * 2", flag="len > 9"),
        "select-1  src, len = len * 2, flag = len > 9",
    ),
    (PACKETS.drop("src"), "select-1  len"),
    (PACKETS.rename(src="host"), "select-1  host = src, len"),
    (PACKETS.select_many(repeat="len"), "select_many-1  src, len (repeat len)"),
    (PACKETS.select_many("src", repeat=2, n="7"), "select_many-1  src, n = 7 (repeat 2)"),
    (PACKETS.set_duration("1 ms"), "set_duration-1  1000"),
    (PACKETS.set_duration(INFINITY), "set_duration-1  forever"),
    (PACKETS.points(), "set_duration-1  1"),
    (
        PACKETS.alter_lifetime(start="_start - len", duration=3),
        "alter_lifetime-1  start _start - len, duration 3",
    ),
    (PACKETS.shift("-1 ms"), "shift-1  by -1000"),
    (PACKETS.shift(col("len")), "shift-1  by len"),
    (PACKETS.extend(timedelta(milliseconds=-1)), "extend-1  by -1000"),
    (PACKETS.clip_duration(7), "clip_duration-1  to 7"),
    (PACKETS.point_at_end(), "point_at_end-1"),
    (PACKETS.chop(10, offset=3), "chop-1  every 10 from 3"),
    (PACKETS.stitch(), "stitch-1"),
    (PACKETS.hopping_lifetime(10), "hopping_lifetime-1  10 by 10"),
    (PACKETS.hopping_lifetime(10, 5, offset=1), "hopping_lifetime-1  10 by 5 from 1"),
    (PACKETS.quantize(10, 5), "quantize-1  10 by 5"),
    (PACKETS.session_lifetime(5, max_duration=20), "session_lifetime-1  timeout 5, at most 20"),
    (PACKETS.group_by("src").session_lifetime(5), "session_lifetime-1  timeout 5 by src"),
    (PACKETS.distinct(), "distinct-1"),
    (PACKETS.top_k(3, by="len"), "top_k-1  3 largest len, snapshot"),
    (
        PACKETS.tumbling(10).top_k(1, by="len", descending=False),
        "top_k-1  1 smallest len, tumbling(10)",
    ),
    (
        PACKETS.group_by("src").top_k(1, by="len", rank="r"),
        "top_k-1  1 largest len, snapshot by src, rank as r",
    ),
    (PACKETS.snapshot().aggregate(n=count()), "window_aggregate-1  snapshot: n = count()"),
    (
        PACKETS.session("1 ms").aggregate(m=max_("len")),
        "window_aggregate-1  session(gap 1000): m = max(len)",
    ),
    (
        PACKETS.tumbling(10).fill().aggregate(n=count()),
        "window_aggregate-1  tumbling(10): n = count(), 1 groups filled",
    ),
    (
        PACKETS.group_by("src")
        .hopping(10, 5)
        .fill(["a", "b"])
        .aggregate(s=sum_("len", where="len > 1")),
        "window_aggregate-1  hopping(10 by 5) by src: s = sum(len) where len > 1, 2 groups filled",
    ),
]


@pytest.mark.parametrize(
    ("query", "line"), SPELLINGS, ids=[line.split("  ")[0] for _, line in SPELLINGS]
)
def test_a_method_adds_one_operator(query: Stream, line: str) -> None:
    assert plan_text(query.node).splitlines() == [line, "  source-1  packets"]


def test_windows_are_what_they_say() -> None:
    grouped = PACKETS.group_by("src")
    assert grouped.keys == ("src",)
    assert grouped.snapshot().window == SnapshotWindow()
    assert grouped.tumbling("1 s", offset="1 ms").window == HoppingWindow(
        1_000_000, 1_000_000, 1_000
    )
    assert PACKETS.hopping("10 min", "1 min").window == HoppingWindow(600_000_000, 60_000_000)
    assert PACKETS.session(timedelta(seconds=2)).window == SessionWindow(2_000_000)


def test_a_computed_key_becomes_a_column() -> None:
    query = PACKETS.group_by("src", size="len // 10").tumbling(10).aggregate(n=count())
    assert query.schema.names == ["src", "size", "n"]
    assert rows_of(query, packets=[(1, 2, {"src": "a", "len": 25})]) == [
        (0, 10, {"src": "a", "size": 2, "n": 1})
    ]


def test_edges_last_until_the_next_of_their_key() -> None:
    samples: list[Row] = [
        (1, 2, {"src": "a", "len": 1}),
        (4, 5, {"src": "b", "len": 2}),
        (6, 7, {"src": "a", "len": 3}),
    ]
    expected: list[Row] = [
        (1, 6, {"src": "a", "len": 1}),
        (4, INFINITY, {"src": "b", "len": 2}),
        (6, INFINITY, {"src": "a", "len": 3}),
    ]
    assert_same_table(expected, rows_of(PACKETS.edges(on="src"), packets=samples))
    assert_same_table(expected, rows_of(PACKETS.group_by("src").edges(), packets=samples))
    clip = PACKETS.edges("src").node
    assert isinstance(clip, nodes.ClipBy) and clip.left is clip.right


def test_group_apply_puts_the_keys_in_front() -> None:
    busiest = PACKETS.group_apply("src", lambda g: g.tumbling(10).aggregate(n=count()))
    assert busiest.schema.names == ["src", "n"]
    renamed = PACKETS.group_apply(
        {"host": "upper(src)"},
        lambda g: g.snapshot().aggregate(n=count()),
        select={"h": "key_host", "twice": "n * 2"},
    )
    assert renamed.schema.names == ["h", "twice"]
    assert rows_of(
        renamed, packets=[(1, 2, {"src": "a", "len": 0}), (1, 2, {"src": "A", "len": 0})]
    ) == [(1, 2, {"h": "A", "twice": 4})]


def test_groups_nest() -> None:
    query = PACKETS.group_by("src").apply(
        lambda g: g.group_apply("len", lambda h: h.snapshot().aggregate(n=count()))
    )
    assert query.schema.names == ["src", "len", "n"]


def test_union_of_many() -> None:
    query = PACKETS.union(PACKETS.where("len > 1"), PACKETS.where("len > 2"))
    table: list[Row] = [(1, 2, {"src": "a", "len": n}) for n in (1, 2, 3)]
    assert sorted(p["len"] for _, _, p in rows_of(query, packets=table)) == [1, 2, 2, 3, 3, 3]


# ------------------------------------------------------------------------------------------------
# joins

LEFT: list[Row] = [(0, 10, {"src": "a", "len": 1}), (0, 10, {"src": "z", "len": 2})]
RIGHT: list[Row] = [(5, 15, {"src": "a", "name": "host a", "len": 7})]


def joined(how: str, **more: Any) -> list[Row]:
    return rows_of(PACKETS.join(HOSTS, on="src", how=how, **more), packets=LEFT, hosts=RIGHT)


def test_a_join_has_the_left_columns_then_the_right_ones() -> None:
    assert PACKETS.join(HOSTS, on="src").schema.names == ["src", "len", "name", "len_right"]
    assert joined("inner") == [(5, 10, {"src": "a", "len": 1, "name": "host a", "len_right": 7})]


def test_keys_of_other_names_both_stay() -> None:
    assert PACKETS.join(HOSTS, on={"src": "name"}).schema.names == [
        "src",
        "len",
        "src_right",
        "name",
        "len_right",
    ]
    assert PACKETS.join(HOSTS, on=["src", "len"]).schema.names == ["src", "len", "name"]
    assert PACKETS.join(HOSTS).schema.names == ["src", "len", "src_right", "name", "len_right"]


def test_an_outer_join_fills_with_null() -> None:
    inner: Row = (5, 10, {"src": "a", "len": 1, "name": "host a", "len_right": 7})
    alone: list[Row] = [
        (0, 5, {"src": "a", "len": 1, "name": None, "len_right": None}),
        (0, 10, {"src": "z", "len": 2, "name": None, "len_right": None}),
    ]
    other: Row = (10, 15, {"src": "a", "len": None, "name": "host a", "len_right": 7})
    assert_same_table([inner, *alone], joined("left"))
    assert_same_table([inner, *alone, other], joined("full"))
    assert_same_table(
        [inner, *alone], rows_of(PACKETS.left_join(HOSTS, on="src"), packets=LEFT, hosts=RIGHT)
    )
    assert_same_table(
        [inner, *alone, other],
        rows_of(PACKETS.full_join(HOSTS, on="src"), packets=LEFT, hosts=RIGHT),
    )


def test_a_selection_sees_nulls_for_the_missing_side() -> None:
    chosen = {"who": "coalesce(name, 'nobody')", "sum": "l.len + coalesce(r.len, 0)"}
    assert_same_table(
        [
            (5, 10, {"who": "host a", "sum": 8}),
            (0, 5, {"who": "nobody", "sum": 1}),
            (0, 10, {"who": "nobody", "sum": 2}),
        ],
        joined("left", select=chosen),
    )


def test_either_side_alone_can_be_said_otherwise() -> None:
    query = {
        "select": {"n": "l.len"},
        "left_only": {"n": "0 - len"},
        "right_only": {"n": "len * 100"},
    }
    assert_same_table(
        [(5, 10, {"n": 1}), (0, 5, {"n": -1}), (0, 10, {"n": -2}), (10, 15, {"n": 700})],
        joined("full", **query),
    )


def test_columns_can_be_listed() -> None:
    assert joined("inner", select=["name", "l.len"]) == [(5, 10, {"name": "host a", "len": 1})]


def test_semi_and_anti_joins_give_left_rows() -> None:
    semi, anti = (
        PACKETS.semi_join(HOSTS, on="src"),
        PACKETS.anti_join(HOSTS, on="src", where="r.len > 5"),
    )
    assert rows_of(semi, packets=LEFT, hosts=RIGHT) == [(5, 10, {"src": "a", "len": 1})]
    assert rows_of(anti, packets=LEFT, hosts=RIGHT) == [
        (0, 5, {"src": "a", "len": 1}),
        (0, 10, {"src": "z", "len": 2}),
    ]


def test_clip_by_another_stream() -> None:
    query = PACKETS.clip_by(HOSTS, on="src")
    assert rows_of(query, packets=LEFT, hosts=RIGHT) == [
        (0, 5, {"src": "a", "len": 1}),
        (0, 10, {"src": "z", "len": 2}),
    ]


# ------------------------------------------------------------------------------------------------
# refusals

MISTAKES: list[tuple[str, Callable[[], object], type[PlanError], str]] = [
    ("where column", lambda: PACKETS.where("lenn > 40"), UnknownColumnError, "Did you mean 'len'?"),
    ("where number", lambda: PACKETS.where("len + 1"), TypeMismatchError, "must be a condition"),
    ("where text", lambda: PACKETS.where("len >"), ExpressionError, "len >"),
    (
        "where function",
        lambda: PACKETS.where("lenght(src) > 1"),
        ExpressionError,
        "Did you mean 'length'?",
    ),
    ("compare", lambda: PACKETS.where("src > 1"), PlanError, "src"),
    ("select column", lambda: PACKETS.select("sr"), UnknownColumnError, "Did you mean 'src'?"),
    ("select unnamed", lambda: PACKETS.select("len + 1"), PlanError, "select(name='len + 1')"),
    ("select nothing", lambda: PACKETS.select(*()), PlanError, "at least one column"),
    ("select control", lambda: PACKETS.select(_end="len"), PlanError, "control column"),
    ("select end", lambda: PACKETS.select(e="_end"), UnknownColumnError, "_end"),
    ("drop column", lambda: PACKETS.drop("srk"), UnknownColumnError, "Did you mean 'src'?"),
    ("rename column", lambda: PACKETS.rename(srk="x"), UnknownColumnError, "Did you mean 'src'?"),
    ("rename clash", lambda: PACKETS.rename(src="len"), PlanError, "twice"),
    ("select_many", lambda: PACKETS.select_many("src"), PlanError, "repeat= or unnest="),
    ("unnest", lambda: PACKETS.select_many(unnest="len"), TypeMismatchError, "list column"),
    ("duration", lambda: PACKETS.set_duration(0), WindowError, "positive"),
    ("duration text", lambda: PACKETS.set_duration("10 parsecs"), WindowError, "10 parsecs"),
    ("duration bool", lambda: PACKETS.set_duration(True), WindowError, "True"),
    ("shift text", lambda: PACKETS.shift(col("src")), TypeMismatchError, "whole number"),
    (
        "lifetime",
        lambda: PACKETS.alter_lifetime(start="src", duration=1),
        TypeMismatchError,
        "whole number",
    ),
    ("chop", lambda: PACKETS.chop(-1), WindowError, "positive"),
    ("quantize", lambda: PACKETS.quantize(10, 10, progress=3), WindowError, "multiple"),
    ("tumbling", lambda: PACKETS.tumbling("0 s"), WindowError, "positive"),
    ("hopping", lambda: PACKETS.hopping("10 min", -1), WindowError, "positive"),
    ("group column", lambda: PACKETS.group_by("scr"), UnknownColumnError, "Did you mean 'src'?"),
    ("group nothing", lambda: PACKETS.group_by(*()), PlanError, "at least one"),
    (
        "group shadow",
        lambda: PACKETS.group_by(len="len // 10"),
        PlanError,
        "name the key otherwise",
    ),
    ("aggregate nothing", lambda: PACKETS.tumbling(10).aggregate(), PlanError, "n=count()"),
    (
        "aggregate text",
        lambda: PACKETS.tumbling(10).aggregate(n="count"),  # type: ignore[arg-type]
        PlanError,
        "n=count()",
    ),
    (
        "sum text",
        lambda: PACKETS.tumbling(10).aggregate(n=sum_("src")),
        TypeMismatchError,
        "needs a number",
    ),
    (
        "sum column",
        lambda: PACKETS.tumbling(10).aggregate(n=sum_("lem")),
        UnknownColumnError,
        "Did you mean 'len'?",
    ),
    (
        "fill snapshot",
        lambda: PACKETS.snapshot().fill().aggregate(n=count()),
        WindowError,
        "hopping and tumbling",
    ),
    (
        "fill true",
        lambda: PACKETS.group_by("src").tumbling(1).fill().aggregate(n=count()),
        PlanError,
        "which groups",
    ),
    (
        "fill list",
        lambda: PACKETS.tumbling(1).fill(["a"]).aggregate(n=count()),
        PlanError,
        "write fill()",
    ),
    (
        "fill value",
        lambda: PACKETS.group_by("len").tumbling(1).fill(["a"]).aggregate(n=count()),
        TypeMismatchError,
        "int64",
    ),
    (
        "fill in a group",
        lambda: PACKETS.group_apply("src", lambda g: g.tumbling(1).fill().aggregate(n=count())),
        PlanError,
        "not inside a group",
    ),
    (
        "fill width",
        lambda: PACKETS.group_by("len").tumbling(1).fill([(1, 2)]).aggregate(n=count()),
        PlanError,
        "each of len",
    ),
    ("top_k none", lambda: PACKETS.top_k(0, by="len"), WindowError, "positive"),
    (
        "top_k half",
        lambda: PACKETS.top_k(1.5, by="len"),  # type: ignore[arg-type]
        WindowError,
        "whole number",
    ),
    (
        "top_k session",
        lambda: PACKETS.session(5).top_k(1, by="len"),
        WindowError,
        "tumbling or hopping",
    ),
    ("top_k column", lambda: PACKETS.top_k(1, by="lem"), UnknownColumnError, "Did you mean 'len'?"),
    ("union columns", lambda: PACKETS.union(HOSTS), TypeMismatchError, "columns differ"),
    (
        "union window",
        lambda: PACKETS.union(PACKETS.tumbling(1)),  # type: ignore[arg-type]
        PlanError,
        ".aggregate(...)",
    ),
    (
        "join kind",
        lambda: PACKETS.join(HOSTS, on="src", how="iner"),
        PlanError,
        "Did you mean 'inner'?",
    ),
    ("join key", lambda: PACKETS.join(HOSTS, on="nam"), UnknownColumnError, "nam"),
    ("join types", lambda: PACKETS.join(HOSTS, on={"src": "len"}), TypeMismatchError, "one type"),
    (
        "join where",
        lambda: PACKETS.join(HOSTS, where="r.nam = 'x'"),
        UnknownColumnError,
        "Did you mean 'r.name'?",
    ),
    ("join ambiguous", lambda: PACKETS.join(HOSTS, where="len = 1"), UnknownColumnError, "l.len"),
    (
        "join with table",
        lambda: PACKETS.join([1, 2], on="src"),  # type: ignore[arg-type]
        PlanError,
        "must be a stream",
    ),
    (
        "semi select",
        lambda: PACKETS.join(HOSTS, how="semi", select=["name"]),
        PlanError,
        "select afterwards",
    ),
    (
        "inner left_only",
        lambda: PACKETS.join(HOSTS, left_only={"x": "len"}),
        PlanError,
        "left and full joins",
    ),
    (
        "left_only names",
        lambda: PACKETS.join(HOSTS, how="left", select=["name"], left_only={"x": "src"}),
        TypeMismatchError,
        "left_only",
    ),
    (
        "group_apply column",
        lambda: PACKETS.group_apply("src", lambda g: g.where("lenn > 1")),
        UnknownColumnError,
        "Did you mean 'len'?",
    ),
    (
        "group_apply unused",
        lambda: PACKETS.group_apply("src", lambda _: HOSTS),
        PlanError,
        "does not use",
    ),
    (
        "group_apply window",
        lambda: PACKETS.group_apply("src", lambda g: cast(Any, g.tumbling(1))),
        PlanError,
        ".aggregate(...)",
    ),
    (
        "source type",
        lambda: source("s", {"a": "strin"}),
        TypeMismatchError,
        "Did you mean 'string'?",
    ),
    (
        "source columns",
        lambda: source("s", ["a"]),  # type: ignore[arg-type]
        PlanError,
        "pyarrow schema",
    ),
    ("source empty", lambda: source("s", {}), PlanError, "at least one column"),
    (
        "source late",
        lambda: source("s", {"a": "int64"}, late="ignore"),
        PlanError,
        "late must be one of error, drop, adjust, side",
    ),
    (
        "source disorder",
        lambda: source("s", {"a": "int64"}, disorder="-1 s"),
        WindowError,
        "negative",
    ),
    ("source period", lambda: source("s", {"a": "int64"}, period="1 s"), PlanError, "disorder="),
    (
        "source partition",
        lambda: source("s", {"alpha": "int64"}, partition="alpa"),
        UnknownColumnError,
        "Did you mean 'alpha'?",
    ),
    (
        "source watermark",
        lambda: source("s", {"a": "int64"}, low_watermark=(1, 1)),
        PlanError,
        "partition=",
    ),
    (
        "source groups",
        lambda: source("s", {"alpha": "int64"}, group_ctis=["alpa"]),
        UnknownColumnError,
        "Did you mean 'alpha'?",
    ),
]


@pytest.mark.parametrize(
    ("build", "kind", "words"), [case[1:] for case in MISTAKES], ids=[case[0] for case in MISTAKES]
)
def test_a_mistake_is_refused_on_the_line_that_makes_it(
    build: Callable[[], object], kind: type[PlanError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        build()
    assert words in str(caught.value)
    assert caught.value.file == __file__
    assert caught.value.line == inspect.getsourcelines(build)[1]


def test_a_mistake_inside_a_group_is_on_the_line_of_the_inner_query() -> None:
    def inner(group: Stream) -> Stream:
        return group.where("lenn > 1")

    with pytest.raises(UnknownColumnError) as caught:
        PACKETS.group_apply("src", inner)
    assert (caught.value.file, caught.value.line) == (
        __file__,
        inspect.getsourcelines(inner)[1] + 1,
    )
