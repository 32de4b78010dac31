"""A promise for one group frees the state of that group: what is held follows the groups that are
open, not those that have ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import thalweg as tw
from thalweg.model.elements import Element
from thalweg.model.time import INFINITY

Query = Callable[[tw.Stream, tw.Stream], tw.Stream]

QUERIES: dict[str, Query] = {
    "source": lambda a, _: a,
    "join": lambda a, b: a.join(b, on="k"),
    "semi join": lambda a, b: a.semi_join(b, on="k"),
    "anti join": lambda a, b: a.anti_join(b, on="k"),
    "left join": lambda a, b: a.left_join(b, on="k"),
    "window join": lambda a, b: a.window_join(
        b, on="k", window=tw.band(before=5, after=5), how="left"
    ),
    "distinct": lambda a, _: a.distinct(),
    "snapshot": lambda a, _: a.group_by("k").snapshot().aggregate(n=tw.count()),
    "top_k": lambda a, _: a.group_by("k").top_k(1, by="v"),
    "module, snapshot": lambda a, _: a.group_by("k").snapshot().apply("median", "v"),
    "module, ends matter": lambda a, _: (
        a.group_by("k").snapshot().apply("time_weighted_average", "v", clip="none")
    ),
    "module, hopping": lambda a, _: (
        a.set_duration(15).group_by("k").hopping(10, 5).apply("average", "v")
    ),
    "module, hopping, ends matter": lambda a, _: (
        a.set_duration(15)
        .group_by("k")
        .hopping(10, 5)
        .apply("time_weighted_average", "v", clip="none")
    ),
    "module, session": lambda a, _: a.group_by("k").session(5).apply("median", "v"),
    "module, count": lambda a, _: a.group_by("k").count_by_start(2).apply("median", "v"),
    "module, count by end": lambda a, _: a.group_by("k").count_by_end(2).apply("median", "v"),
    "session lifetime": lambda a, _: a.group_by("k").session_lifetime(12),
    "session lifetime, limited": lambda a, _: a.group_by("k").session_lifetime(12, max_duration=15),
    "two levels": lambda a, _: (
        a.points().group_by("k").hopping(20, 10).two_level(16).aggregate(n=tw.count())
    ),
    "sessions": lambda a, _: a.group_by("k").session(12).aggregate(n=tw.count()),
    "hopping": lambda a, _: a.points().group_by("k").hopping(20, 10).aggregate(n=tw.count()),
}


def rows_of(group: int) -> list[Element]:
    return [
        tw.insert({"k": group, "v": at}, 10 * at, INFINITY if at == 2 else 10 * at + 15)
        for at in range(3)
    ]


@pytest.mark.parametrize(("consistency", "groups"), [("speculative", 400), ("final", 60)])
@pytest.mark.parametrize("name", QUERIES)
def test_groups_that_have_ended_leave_nothing(name: str, consistency: str, groups: int) -> None:
    a, b = (
        tw.source(source, {"k": "int64", "v": "int64"}, group_ctis="k") for source in ("a", "b")
    )
    engine = tw.Engine(QUERIES[name](a, b), consistency=consistency)
    most = 0
    for group in range(min(groups, 60) if name.startswith("module") else groups):
        for source in engine.sources:
            engine.push(source, rows_of(group))
        most = max(most, engine.status().state.rows)
        for source in engine.sources:
            engine.push(source, tw.cti(INFINITY, {"k": group}))
    assert engine.status().state.rows == 0
    assert most < 40, "state follows the one group that is open"


@pytest.mark.parametrize("name", QUERIES)
def test_a_group_that_goes_on_keeps_what_it_needs(name: str) -> None:
    """A promise of a group in the midst of its rows: the answers are those of a common promise."""

    def answers(scope: dict[str, int] | None) -> list[object]:
        named = () if scope is None else ("k",)
        a, b = (tw.source(s, {"k": "int64", "v": "int64"}, group_ctis=named) for s in ("a", "b"))
        query = QUERIES[name](a, b)
        elements = [
            *rows_of(1),
            tw.cti(18, scope),
            tw.adjust({"k": 1, "v": 1}, 10, 25, 21),
            tw.insert({"k": 1, "v": 7}, 18, 40),
            tw.cti(23, scope),
            tw.adjust({"k": 1, "v": 7}, 18, 40, 30),
        ]
        sides = {"a": elements, "b": elements} if "join" in name else {"a": elements}
        return list(tw.table(query, sides))

    assert answers({"k": 1}) == answers(None)


def test_partitions_of_bins_that_have_ended_leave_nothing() -> None:
    """Slide-by-tuple windows in one pass: answers of a partition are final at its promise."""
    source = tw.source("a", {"k": "int64", "v": "int64"}, insert_only=True, group_ctis="k")
    windows = source.group_by("k").slide_by_tuple(12, partition_by="k")
    engine = tw.Engine(windows.using("bins").aggregate(n=tw.count()), consistency="final")
    for group in range(50):
        engine.push(
            "a", [tw.insert({"k": group, "v": at}, 10 * at, 10 * at + 1) for at in (2, 0, 1)]
        )
        assert engine.status().state.rows > 0
        out = list(tw.elements_of(engine.push("a", tw.cti(15, {"k": group}))))
        assert [e.payload["n"] for e in out if isinstance(e, tw.Insert)] == [1, 2]
        engine.push("a", tw.insert({"k": group, "v": 3}, 17, 18))
        out = list(tw.elements_of(engine.push("a", tw.cti(INFINITY, {"k": group}))))
        assert [e.payload["n"] for e in out if isinstance(e, tw.Insert)] == [2, 3]
        assert engine.status().state.rows == 0
