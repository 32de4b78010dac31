"""A promise for one group frees the state of that group: what is held follows the groups that are
open, not those that have ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import thalweg as tw
from thalweg.errors import LateEventError, ProgressError
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
    "hopping of points": lambda a, _: (
        a.points().group_by("k").hopping(20, 10).aggregate(n=tw.count())
    ),
    "union": lambda a, b: a.union(b),
    "clip_by": lambda a, b: a.clip_by(b, "k"),
    "as-of join": lambda a, b: a.asof_join(b, "k"),
    "stitch": lambda a, _: a.stitch(),
    "group_apply": lambda a, _: a.group_apply("k", lambda group: group.distinct()),
    "tumbling": lambda a, _: a.group_by("k").tumbling(10).aggregate(n=tw.count()),
    "hopping": lambda a, _: a.group_by("k").hopping(20, 5).aggregate(n=tw.max_("v")),
    "session": lambda a, _: a.group_by("k").session(5).aggregate(n=tw.count()),
    "session_lifetime": lambda a, _: a.group_by("k").session_lifetime(5),
    "landmark": lambda a, _: a.group_by("k").landmark(4).aggregate(n=tw.count()),
    "count_by_start": lambda a, _: a.group_by("k").count_by_start(2).aggregate(n=tw.count()),
    "slide_by_tuple": lambda a, _: (
        a.group_by("k").slide_by_tuple(5, partition_by="k").aggregate(n=tw.count())
    ),
    "bins": lambda a, _: (
        a.group_by("k").slide_by_tuple(5, partition_by="k").using("bins").aggregate(n=tw.count())
    ),
    "two_level": lambda a, _: a.group_by("k").tumbling(10).two_level(64).aggregate(n=tw.count()),
    "two_level, lazy": lambda a, _: (
        a.group_by("k").tumbling(10).two_level(64, flush="lazy", late=2).aggregate(n=tw.count())
    ),
}
INSERT_ONLY = {"bins"}
"""These need a source whose rows are never adjusted."""
ON_A_GRID = {"tumbling", "hopping", "two_level", "two_level, lazy"}
"""Here a row without an end is in endlessly many windows, those of a group that has ended too."""


def query(name: str, *, by_group: bool = True) -> tw.Stream:
    columns, named = {"k": "int64", "v": "int64"}, "k" if by_group else ()
    return QUERIES[name](
        *(
            tw.source(source, columns, group_ctis=named, insert_only=name in INSERT_ONLY)
            for source in ("a", "b")
        )
    )


def rows_of(group: int, name: str = "") -> list[Element]:
    last = 35 if name in ON_A_GRID else INFINITY
    return [
        tw.insert({"k": group, "v": at}, 10 * at, last if at == 2 else 10 * at + 15)
        for at in range(3)
    ]


@pytest.mark.parametrize(("consistency", "groups"), [("speculative", 80), ("final", 25)])
@pytest.mark.parametrize("name", QUERIES)
def test_groups_that_have_ended_leave_nothing(name: str, consistency: str, groups: int) -> None:
    engine = tw.Engine(query(name), consistency=consistency)
    most = 0
    for group in range(min(groups, 60) if name.startswith("module") else groups):
        for source in engine.sources:
            engine.push(source, rows_of(group, name))
        most = max(most, engine.status().state.rows)
        for source in engine.sources:
            engine.push(source, tw.cti(INFINITY, {"k": group}))
    assert engine.status().state.rows == 0
    assert most < 40, "state follows the one group that is open"
    assert len(engine.snapshot()) < 16 * groups * len(engine.sources) + 20_000


@pytest.mark.parametrize("name", ["join", "tumbling", "session", "union"])
def test_what_is_left_of_a_group_is_a_digest_at_its_source(name: str) -> None:
    """And a row of a group that has ended is late, after a restart too."""
    made = query(name)
    engine, sizes = tw.Engine(made), []
    for group in range(300):
        for source in engine.sources:
            engine.push(source, [*rows_of(group, name), tw.cti(INFINITY, {"k": group})])
        if group in (99, 299):
            sizes.append(len(engine.snapshot()))
    assert sizes[1] - sizes[0] < 16 * 200 * len(engine.sources) + 2_000
    for one in (engine, tw.Engine.restore(made, engine.snapshot())):
        for group in (0, 5, 299):
            with pytest.raises(LateEventError):
                one.push("a", rows_of(group))
            with pytest.raises(ProgressError):
                one.push("a", tw.cti(1_000, {"k": group}))
        one.push("a", [*rows_of(300), tw.cti(INFINITY, {"k": 3}), tw.cti(1)])
        with pytest.raises(LateEventError):
            one.push("a", tw.point({"k": 5, "v": 1}, 1_000))


@pytest.mark.parametrize("name", QUERIES)
def test_a_group_that_goes_on_keeps_what_it_needs(name: str) -> None:
    """A promise of a group in the midst of its rows: the answers are those of a common promise."""

    def answers(scope: dict[str, int] | None) -> list[object]:
        made = query(name, by_group=scope is not None)
        elements = [
            *rows_of(1, name),
            tw.cti(18, scope),
            tw.adjust({"k": 1, "v": 1}, 10, 25, 21),
            tw.insert({"k": 1, "v": 7}, 18, 40),
            tw.cti(23, scope),
            tw.adjust({"k": 1, "v": 7}, 18, 40, 30),
        ]
        if name in INSERT_ONLY:
            elements = [element for element in elements if not isinstance(element, tw.Adjust)]
        return list(tw.table(made, dict.fromkeys(tw.Engine(made).sources, elements)))

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
