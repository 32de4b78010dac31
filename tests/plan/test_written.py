"""Plans as JSON: every class comes back, nothing else is let in."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.aggregates import ApproximatePercentile, DiscretePercentile, HeavyHitters
from thalweg.errors import PlanError
from thalweg.expr import call, col, lit
from thalweg.expr.case import Case
from thalweg.expr.user_calls import UserFunction
from thalweg.plan import nodes
from thalweg.plan.aggregates import aggregate_by
from thalweg.plan.catalogue import examples
from thalweg.plan.nodes import Ingress, Node, walk
from thalweg.plan.nodes.arrivals import StampArrivals
from thalweg.plan.nodes.panes import Table, in_panes
from thalweg.plan.nodes.sources import MergedSource
from thalweg.plan.rules import optimize
from thalweg.plan.strategies import Volume
from thalweg.plan.written import read_plan, write_plan
from thalweg.plan.written_classes import field_types, known_classes
from thalweg.plan.written_schema import plan_schema
from thalweg.progress.policies import Policy
from thalweg.testing.plans import trial_of_seed
from thalweg.udm.decorators import function
from thalweg.udm.registry import DEFAULT
from thalweg.windows import HoppingWindow, LandmarkTime, SlidingRows, SlidingTime
from thalweg.windows.calendar import CalendarWindow


@function("written.doubled", inputs=["int64"], output="int64")
def doubled(value: int) -> int:
    return 2 * value


def _kinds() -> Iterator[tuple[str, Node]]:
    """What the catalogue of operators does not show."""
    rows = tw.source("s", {"k": "int64", "v": "int64"}, insert_only=True)
    other = tw.source("o", {"k": "int64", "v": "int64"})
    for mode in ("recent", "continuous", "chronicle", "unrestricted"):
        yield (
            f"sequence {mode}",
            tw.sequence({"a": rows, "b": other}, "k", mode=mode, within=5).node,
        )
    dip = tw.then(
        tw.event("v > 1", keep={"low": "v"}),
        tw.one_of(tw.optional(tw.event("v < low")), tw.repeated(tw.event("v = 3"))),
    )
    detected = rows.group_by("k").detect(dip, within=9, registers={"low": "int64"})
    yield "detect", detected.node
    yield "merge", tw.merge(rows, tw.source("c", {"k": "int64", "v": "int64"})).node
    yield "retime", nodes.Retime(rows.node, col("_start"), col("_start") + lit(3))
    yield "group_apply", rows.group_apply("k", lambda group: group.distinct()).node
    yield "module", rows.group_by("k").tumbling(5).apply("std.median", "v").node
    panes = in_panes(rows.group_by("k").hopping(10, 5).aggregate(n=tw.count()).node)
    assert panes is not None
    yield "panes", panes
    held = in_panes(rows.tumbling(5).aggregate(n=tw.count()).node, Table(100))
    assert held is not None
    yield "panes of a table", held
    several = rows.group_by("k").tumbling(5)
    yield (
        "aggregates",
        several.aggregate(
            a=tw.avg("v"),
            b=tw.variance("v"),
            c=tw.stddev("v"),
            d=tw.percentile("v", 0.5),
            e=aggregate_by(DiscretePercentile(0.5), "v"),
            h=tw.first("v"),
            i=tw.last("v"),
            j=tw.arg_max("v", by="k"),
            k2=tw.arg_min("v", by="k", where="v > 0"),
            m=tw.min_("v"),
            n=tw.max_("v"),
            o=tw.sum_("v"),
        ).node,
    )
    sketches = {
        "f": aggregate_by(ApproximatePercentile(0.5), "v"),
        "g": aggregate_by(HeavyHitters(0.2), "v"),
    }
    yield "sketches", rows.points().tumbling(5).aggregate(sketches).node
    calls = (("n", tw.count()),)
    for kind in (
        *(SlidingTime(10, 5), LandmarkTime(5), SlidingRows(4, 2)),
        CalendarWindow("month", "Europe/Berlin"),
    ):
        yield str(kind), nodes.WidAggregate(nodes.NumberRows(rows.node, ()), kind, calls, ("k",))
    yield "count", rows.count_by_end(3).apply("std.median", "v").node
    yield "module over tuples", rows.slide_by_tuple(5).apply("std.median", "v").node
    yield (
        "expected",
        nodes.WindowAggregate(
            rows.node, HoppingWindow(10, 5), calls, ("k",), expected=Volume(100.0, 3.0)
        ),
    )
    conditions = Case(((col("v") > 1, lit(1.5)), (col("v") < 0, lit(float("nan")))), None)
    yield (
        "expressions",
        rows.select(
            a=conditions,
            b=lit(date(2024, 2, 29)),
            c=lit(timedelta(days=1)),
            d=col("v").cast(pa.int8()),
            e=lit(b"\x00"),
            f=lit(None),
            g=call("written.doubled", col("v")),
            h="CAST(v AS TEXT) || 'x'",
        ).node,
    )
    policies: list[Policy] = [
        tw.late_by_rows(10),
        tw.estimated(0.99),
        tw.timer("2 s"),
        tw.on_demand(10),
    ]
    for policy in policies:
        yield str(policy), tw.source("p", {"k": "int64"}, progress=[policy], insert_only=True).node
    late = Ingress(progress=(tw.late_by(5),))
    yield "late by", nodes.Source("l", pa.schema([("k", pa.int64())]), late)
    gate = tw.quarantine("1 s")
    yield "quarantine", tw.source("q", {"k": "int64"}, quarantine=gate, insert_only=True).node
    newest = tw.source("u", {"k": "int64", "v": "int64"}, insert_only=True).update_key("k")
    yield "update key", newest.node
    yield "newest window", newest.newest_window(4, 2).aggregate(n=tw.count()).node
    yield "arrivals", StampArrivals(rows.node, 1_000)
    yield "merged", MergedSource("m", rows.schema, groups=("k",))
    clocked = pa.schema([("at", pa.timestamp("us", "UTC")), ("v", pa.list_(pa.int8()))])
    yield "times", tw.source("t", clocked, time="at").where("_start > '2024-01-01'").node


def _plans() -> list[tuple[str, Node]]:
    return [*examples(), *_kinds()]


def _again(node: Node) -> Node:
    text = json.dumps(write_plan(node), allow_nan=False)
    return read_plan(json.loads(text))


def _names(written: Any) -> Iterator[str]:
    if isinstance(written, dict):
        if "class" in written:
            yield written["class"]
        written = list(written.values())
    if isinstance(written, list):
        for item in written:
            yield from _names(item)


@pytest.mark.parametrize(("name", "node"), _plans(), ids=[name for name, _ in _plans()])
def test_a_plan_comes_back_as_it_was(name: str, node: Node) -> None:
    for plan in (node, optimize(node)[0]):
        again = _again(plan)
        assert write_plan(again) == write_plan(plan)
        assert [n.signature for n in walk(again)] == [n.signature for n in walk(plan)]
        assert again.schema.equals(plan.schema) and again.properties == plan.properties


def test_every_class_of_the_registry_is_written() -> None:
    known = {
        name for name, made in known_classes().items() if made.__module__.startswith("thalweg.")
    }
    written = {name for _, node in _plans() for name in _names(write_plan(node))}
    assert known - written == set(), "classes without an example here: can they be written?"


def test_every_class_is_in_the_schema() -> None:
    schema = plan_schema()
    assert json.loads(json.dumps(schema)) == schema
    for name, made in known_classes().items():
        described = schema["$defs"][name]
        fields = set(field_types(made)) if hasattr(made, "__dataclass_fields__") else {"parameters"}
        assert set(described["properties"]) - {"class", "version"} == fields


@pytest.mark.parametrize("seed", range(40))
def test_random_plans_come_back(seed: int) -> None:
    query = trial_of_seed(seed).query
    assert write_plan(_again(query)) == write_plan(query)


@pytest.mark.slow
def test_many_random_plans_come_back() -> None:
    for seed in range(5_000):
        query = trial_of_seed(seed).query
        assert write_plan(_again(query)) == write_plan(query)


def test_a_node_that_two_read_stays_one() -> None:
    rows = tw.source("s", {"v": "int64"}).where("v > 1")
    again = _again(rows.union(rows).node)
    assert again.inputs[0] is again.inputs[1]


def test_a_long_chain_needs_no_recursion() -> None:
    stream = tw.source("s", {"v": "int64"})
    for _ in range(3_000):
        stream = stream.shift(1)
    assert len(list(walk(_again(stream.node)))) == 3_001


# ------------------------------------------------------------------------------------------------
# refusals


def _plan() -> dict[str, Any]:
    rows = tw.source("s", {"k": "int64", "v": "int64"}).where("v + 1 > 1")
    query = rows.tumbling(5).aggregate(n=tw.sum_("v"))
    return json.loads(json.dumps(write_plan(query.node)))  # type: ignore[no-any-return]


def _changed(path: list[str | int], value: Any) -> dict[str, Any]:
    plan = copy.deepcopy(_plan())
    at: Any = plan
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return plan


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            ["nodes", 1, "class"],
            "Were",
            r"nodes\[1\]: unknown class \"Were\". Did you mean 'Where'",
        ),
        (["nodes", 1, "predicate", "class"], "os.system", r"nodes\[1\]\.predicate: unknown class"),
        (["nodes", 1, "version"], 9, r"nodes\[1\]: Where has version 9"),
        (["nodes", 1, "extra"], 1, r"nodes\[1\]: Where has no field 'extra'"),
        (["nodes", 1, "predicate"], "v > 1", r"nodes\[1\]\.predicate: \"v > 1\" is no value"),
        (["nodes", 1, "input"], {"node": 5}, r"nodes\[1\]\.input: there is no node 5"),
        (["nodes", 1, "input"], {"node": 1}, r"nodes\[1\]\.input: there is no node 1"),
        (["nodes", 0, "columns"], {"schema": [["a", "int65"]]}, r"nodes\[0\]\.columns: .*int65"),
        (
            ["nodes", 1, "predicate"],
            {"pickle": "gASV"},
            r"nodes\[1\]\.predicate: nothing in a plan",
        ),
        (["nodes", 2, "window", "size"], "long", r"nodes\[2\]\.window\.size: \"long\" is no value"),
        (["nodes", 2, "keys"], ["nobody"], r"nodes\[2\]: .*unknown column 'nobody'"),
        (["root"], True, r"root: there is no node true"),
        (["format"], "pickle", "this is no plan"),
        (["version"], 2, "format version 2"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(
    path: list[str | int], value: Any, said: str
) -> None:
    assert read_plan(_plan()).label == "window_aggregate"
    with pytest.raises(PlanError, match=said):
        read_plan(_changed(path, value))


def test_a_pickle_is_no_plan() -> None:
    with pytest.raises(PlanError, match="this is no plan"):
        read_plan(pickle.dumps(_plan()))


def test_a_function_that_this_process_does_not_know_is_refused_or_given() -> None:
    plan = write_plan(
        tw.source("s", {"v": "int64"}).select(d=call("written.doubled", col("v"))).node
    )
    text = json.dumps(plan).replace("written.doubled@1", "elsewhere.twice@1")
    with pytest.raises(PlanError, match=r"nodes\[1\].*does not know 'elsewhere.twice@1'"):
        read_plan(json.loads(text))
    known = DEFAULT.find_function("written.doubled")
    assert known is not None
    elsewhere = UserFunction("elsewhere.twice", "1", known.run, known.inputs, known.output)
    given = read_plan(json.loads(text), given=[elsewhere])
    assert write_plan(given) == json.loads(text)


def test_changed_code_under_one_version_is_refused() -> None:
    plan = write_plan(
        tw.source("s", {"v": "int64"}).select(d=call("written.doubled", col("v"))).node
    )
    text = json.dumps(plan)
    digest = next(iter(json.loads(text)["nodes"][1]["columns"]))[1]["function"]["digest"]
    with pytest.raises(PlanError, match="is not the one that the plan was written with"):
        read_plan(json.loads(text.replace(digest, "0" * len(digest))))


@dataclass(frozen=True, eq=False)
class _Held(nodes.Node):
    input: Node
    file: object

    def __post_init__(self) -> None:
        self._settle(self.input.schema, self.input.properties)


def test_a_setting_that_cannot_be_written_is_named() -> None:
    node = _Held(tw.source("s", {"v": "int64"}).node, open)
    with pytest.raises(PlanError, match=r"file: a builtin_function_or_method cannot be written"):
        write_plan(node)
