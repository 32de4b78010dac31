"""`explain()`: stable ids, one line per operator, the rules that applied."""

from __future__ import annotations

from textwrap import dedent

import pyarrow as pa
import pytest

from tests.plan.rule_cases import CASES, A, B
from thalweg.errors import PlanError
from thalweg.expr import col
from thalweg.plan.aggregates import count
from thalweg.plan.explain import explain, operator_ids, plan_text
from thalweg.plan.nodes import Node, walk
from thalweg.stream import Stream, source


def text(block: str) -> str:
    return dedent(block).strip()


def test_explain_shows_plan_properties_rules_and_result() -> None:
    packets = source(
        "packets", {"src": "string", "len": "int64"}, late="drop", disorder=60, insert_only=True
    )
    query = packets.clip_duration(9).clip_duration(5).where("len > 40")
    assert query.explain() == text("""
        logical plan
          where-1  len > 40
            : src string, len int64
            : insert_only, firm_ends
            clip_duration-2  to 5
              : src string, len int64
              : insert_only, firm_ends
              clip_duration-1  to 9
                : src string, len int64
                : insert_only, firm_ends
                source-1  packets, disorder 60, late events: drop
                  : src string, len int64
                  : insert_only, firm_ends

        rewrites
          1. merge_clip_durations
             before: clip_duration[to 5] <- clip_duration[to 9] <- \
source[packets, disorder 60, late events: drop]
             after:  clip_duration[to 5] <- source[packets, disorder 60, late events: drop]

        rewritten plan
          where-1  len > 40
            : src string, len int64
            : insert_only, firm_ends
            clip_duration-1  to 5
              : src string, len int64
              : insert_only, firm_ends
              source-1  packets, disorder 60, late events: drop
                : src string, len int64
                : insert_only, firm_ends
        """)


def test_explain_says_when_no_rule_applies() -> None:
    assert explain(A.where("v > 1").node).endswith("\n\nno rule applies")


def test_explain_says_what_a_consistency_costs() -> None:
    query = A.tumbling(10).aggregate(n=count())
    assert query.explain(consistency="eager").startswith(
        "answers: eager\n  open windows answer too, once a batch; the volume"
    )
    assert query.explain(consistency="final").splitlines()[2:4] == ["", "logical plan"]
    with pytest.raises(PlanError, match="Did you mean 'eager'"):
        query.explain(consistency="eagr")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_explain_works_for_every_operator_of_the_rules(case: object) -> None:
    assert "logical plan" in case.query.explain()  # type: ignore[attr-defined]


def test_ids_depend_on_the_structure_alone() -> None:
    def build() -> Node:
        a = source("a", {"k": "int64", "v": "int64"})
        return (
            a.where("v > 1")
            .union(a.where("v < 0"))
            .group_by("k")
            .tumbling(10)
            .aggregate(n=count())
            .node
        )

    one, two = build(), build()
    assert [operator_ids(one)[node] for node in walk(one)] == [
        operator_ids(two)[node] for node in walk(two)
    ]
    assert sorted(operator_ids(one).values()) == [
        "source-1",
        "union-1",
        "where-1",
        "where-2",
        "window_aggregate-1",
    ]


def test_ids_and_text_reach_into_groups() -> None:
    query = A.group_apply("k", lambda g: g.tumbling(10).aggregate(n=count()).where("n > 1"))
    assert plan_text(query.node) == text("""
        group_apply-1  by k
          source-1  a
          where-1  n > 1
            window_aggregate-1  tumbling(10): n = count()
              group_input-1
        """)


ONE_LINERS: list[tuple[Stream, str]] = [
    (A.select_many(repeat="v", k="k"), "k (repeat v)"),
    (A.alter_lifetime(start="v * 10", duration=None), "start v * 10, duration forever"),
    (A.extend(-3), "by -3"),
    (A.shift(col("v")), "by v"),
    (A.chop(10, 3), "every 10 from 3"),
    (A.hopping_lifetime(10, 5), "10 by 5"),
    (A.quantize(10, 10, progress=5), "10 by 10, progress 5"),
    (A.session_lifetime(5), "timeout 5"),
    (A.point_at_end(), ""),
    (A.top_k(3, by="v", descending=False, rank="place"), "3 smallest v, snapshot, rank as place"),
    (A.clip_by(B), "on any"),
    (A.join(B, where="v > x", select={"v": "v"}), "inner on any where v > x: v"),
    (
        A.group_apply({"key": "k + 1"}, lambda g: g.where("v > 1"), select={"x": "key_key"}),
        "by key = k + 1: x = key_key",
    ),
    (
        source("p", {"k": "int64"}, disorder=5, period=10, partition="k", low_watermark=(100, 7)),
        "p, disorder 5, period 10, partitions k, low watermark every 100 lagging 7",
    ),
]


@pytest.mark.parametrize(
    ("query", "line"),
    ONE_LINERS,
    ids=lambda value: value.node.label if isinstance(value, Stream) else "",
)
def test_one_line_says_what_an_operator_does(query: Stream, line: str) -> None:
    assert query.node.details == line


def test_a_list_column_is_unnested() -> None:
    lists = source("s", {"xs": pa.list_(pa.int64())})
    assert lists.select_many("xs", unnest="xs").node.details == "xs (unnest xs)"
