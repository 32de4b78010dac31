"""Why an answer is not final: what is named, and how it reads; figures of each operator."""

from __future__ import annotations

from typing import Any

import thalweg as tw
from thalweg.model import Element
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import FakeClock

COLUMNS = {"k": "string", "v": "int64"}


NOT_YET = """
what starts at 0 is not final: the query has promised 0.
  join-1 needs its left input up to 1; it has come to 0
  window_aggregate-1 needs its input up to 10; it has come to 0
  select-1 needs its input up to 10; it has come to 0
  where-1 needs its input up to 10; it has come to 0
  source left has promised 0 since 1970-01-01 00:00:07; it must promise 10
    released by a row at 15 or later (the newest is 12, disorder 5)
    released by a CTI at 10 or later in the data
    released by the end of the source
"""


def source(name: str, **facts: Any) -> tw.Stream:
    return tw.source(name, COLUMNS, **{"insert_only": True, "late": "drop", **facts})


def at(time: int, k: str = "a") -> Element:
    return tw.point({"k": k, "v": time}, time)


def query() -> tw.Stream:
    left, right = source("left", disorder=5), source("right", progress=tw.late_by_rows(2))
    counts = left.where("v >= 0").group_by("k").tumbling(10).aggregate(n=tw.count())
    return counts.join(right, on="k", select={"k": "l.k", "n": "l.n", "v": "r.v"})


def test_it_reads_like_an_answer() -> None:
    clock = FakeClock(7_000_000)
    engine = tw.Engine(query(), now=clock)
    engine.push("left", [at(3), at(8), at(12)])
    engine.push("right", [at(1), at(4), at(6)])
    assert str(engine.why(0)) == NOT_YET.strip()
    clock.advance_to(9_000_000)
    engine.push("left", [at(24), at(26)])
    assert str(engine.why(0)) == "the query has promised 1: what starts at 0 is final."
    left, right = engine.why(20).waits
    assert (left.source, left.operator, left.needs, left.has, left.since) == (
        "left",
        "window_aggregate-1",
        30,
        20,
        9_000_000,
    )
    assert (right.source, right.operator, right.needs, right.has, right.since) == (
        "right",
        "join-1",
        21,
        1,
        7_000_000,
    )
    assert right.release[0] == "a row at 21 or later, and 2 rows after it"


def test_a_group_is_asked_about_by_itself() -> None:
    stream = source("s", partition="k", disorder=5)
    engine = tw.Engine(stream)
    engine.push("s", [at(20, "a"), at(50, "b")])
    assert engine.why(30, k="b").settled
    (wait,) = engine.why(30, k="a").waits
    assert (wait.has, wait.needs) == (15, 31)
    assert wait.release[0] == "a row at 36 or later (the newest is 20, disorder 5)"


def test_what_else_may_explain_a_missing_result_is_noted() -> None:
    engine = tw.Engine(source("s", disorder=0))
    engine.push("s", [at(9), at(3)])
    assert engine.why().notes == ("1 rows of source s came late; see its ledger",)


def test_every_operator_counts_what_it_does() -> None:
    engine = tw.Engine(
        source("s", disorder=0, late="drop").where("v != 3").tumbling(10).aggregate(n=tw.count())
    )
    engine.push("s", [at(1), at(3), at(5)])
    engine.push("s", [at(12), at(31)])
    done = engine.status().operators
    assert {name: (one.batches, one.rows_in, one.rows_out) for name, one in done.items()} == {
        "source-1": (2, 5, 5),
        "where-1": (2, 5, 4),
        "select-1": (2, 4, 4),
        "window_aggregate-1": (2, 4, 2),
    }
    assert done["window_aggregate-1"].state_rows > 0 and all(
        one.seconds > 0 for one in done.values()
    )


def test_retractions_are_counted() -> None:
    engine = tw.Engine(source("s", disorder=20, late="drop").tumbling(10).aggregate(n=tw.count()))
    engine.push("s", [at(1), at(25)])
    engine.push("s", [at(6)])
    assert engine.status().operators["window_aggregate-1"].retractions == 1


def test_a_divided_query_says_the_same() -> None:
    chained = (
        source("left", disorder=5)
        .group_by("k")
        .tumbling(10)
        .aggregate(n=tw.count())
        .tumbling(20)
        .aggregate(most=tw.max_("n"))
    )
    engine = DividedEngine(chained)
    engine.push("left", [at(3), at(28, "b")])
    why = engine.why()
    (wait,) = why.waits
    assert wait.source == "left" and wait.needs % 10 == 0
    assert wait.release[0].startswith(
        f"a row at {wait.needs + 5} or later (the newest is 28, disorder 5)"
    )
    assert wait.path[0].operator.startswith("1/") and wait.path[-1].operator.startswith("0/")
    assert (
        sum(one.rows_in for name, one in engine.figures().items() if name.startswith("0/source"))
        == 2
    )


def test_a_start_that_nothing_promises_waits_for_the_end() -> None:
    """One more row would not release it, however late it is."""
    stream = tw.source("s", {"begin": "int64"}, disorder=4, insert_only=True)
    query = stream.alter_lifetime(start="begin", duration=1).tumbling(10).aggregate(n=tw.count())
    for engine in (tw.Engine(query), DividedEngine(query)):
        for time in (50, 96, 97):
            engine.push("s", [tw.point({"begin": time}, time)])
            why = engine.why()
            assert [wait.release for wait in why.waits] == [("the end of the source",)]
            assert any("nothing is promised about begin" in note for note in why.notes)


def test_a_row_window_says_that_rows_are_missing() -> None:
    query = source("s", disorder=0).sliding(3, 3, over=tw.rows()).aggregate(n=tw.count())
    for engine in (tw.Engine(query, consistency="final"), DividedEngine(query)):
        missing = []
        for time in (5, 6, 7, 8):
            engine.push("s", [at(time)])
            notes = [note for note in engine.why().notes if "is not complete" in note]
            missing.append([note.rpartition(": ")[2] for note in notes])
        assert missing == [["2 rows are missing"], ["1 row is missing"], [], ["2 rows are missing"]]
