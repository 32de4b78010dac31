"""Plans whose graphs have every shape: paths, forks, forks of forks, operators that meet again."""

from __future__ import annotations

from collections.abc import Callable

import thalweg as tw
from thalweg.stream import Stream

COLUMNS = {"k": "int64", "v": "int64"}


def _sources() -> tuple[Stream, Stream]:
    return tw.source("a", COLUMNS), tw.source("b", COLUMNS)


def _path(a: Stream, b: Stream) -> Stream:
    return a.where("v > 0").select(k="k", v="v * 2").shift(3).where("v < 5").select(k="k", w="v")


def _left_join_of_one_source(a: Stream, b: Stream) -> Stream:
    return a.where("v > 0").join(a.where("v > 1"), "k", how="left")


def _row_with_average_of_group(a: Stream, b: Stream) -> Stream:
    mean = a.group_by("k").tumbling(4).aggregate(m=tw.avg("v"))
    return a.where("v > 0").join(mean, "k")


def _self_join(a: Stream, b: Stream) -> Stream:
    return a.join(a, "k")


def _forks_of_forks(a: Stream, b: Stream) -> Stream:
    first = a.where("v >= 0")
    second = first.select(k="k", v="v + 1")
    third = second.where("v > 1")
    return third.union(second.shift(2)).union(first).union(a.where("v > 100"))


def _two_sources(a: Stream, b: Stream) -> Stream:
    both = a.where("v > 0").union(b.select(k="k", v="v - 1"))
    return both.group_by("k").tumbling(5).aggregate(n=tw.count(), s=tw.sum_("v"))


def _full_join(a: Stream, b: Stream) -> Stream:
    return a.join(b.where("v > 0"), "k", how="full")


def _branch_that_drops_all(a: Stream, b: Stream) -> Stream:
    kept = a.where("v >= 0")
    return kept.select(k="k", v="v").union(kept.where("v > 1").where("v < 0")).union(b)


PLANS: dict[str, Callable[[Stream, Stream], Stream]] = {
    "path": _path,
    "left join of one source": _left_join_of_one_source,
    "row with the average of its group": _row_with_average_of_group,
    "self join": _self_join,
    "forks of forks": _forks_of_forks,
    "two sources": _two_sources,
    "full join": _full_join,
    "branch that drops all": _branch_that_drops_all,
}


def plan(name: str) -> Stream:
    """One of the plans, over sources of its own."""
    return PLANS[name](*_sources())
