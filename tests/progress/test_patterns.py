"""General punctuation on both engines: values, ranges and wildcards. What matches is late; a range
that begins where the promises have come closes what a promise would close, and frees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import PlanError, UnknownColumnError
from thalweg.expr import parse
from thalweg.model.punctuation import before, punctuation, within
from thalweg.shards.local_engine import DividedEngine
from thalweg.shards.sources.event_columns import EventColumns
from thalweg.spark.sources.streams import from_files

COLUMNS = {"k": "string", "end": "int64", "size": "float64"}
ENGINES: dict[str, Callable[..., Any]] = {"in-process": tw.Engine, "divided": DividedEngine}
both = pytest.mark.parametrize("engine", ENGINES)


def source(**facts: Any) -> tw.Stream:
    return tw.source("s", COLUMNS, insert_only=True, patterns=True, **facts)


def row(time: int, k: str = "a", end: int = 0, size: float = 1.0) -> tw.Insert:
    return tw.point({"k": k, "end": end, "size": size}, time)


def news(out: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (one.start, *one.payload.values())
        for one in tw.elements_of(out)
        if isinstance(one, tw.Insert)
    ]


@both
def test_what_matches_is_late(engine: str) -> None:
    query = source(late="drop").group_by("k").tumbling(10).aggregate(n=tw.count())
    run = ENGINES[engine](query)
    out = run.push("s", [row(1, size=5.0)])
    out += run.punctuate("s", punctuation(k="a", size=within(4.0, 8.0)))
    out += run.punctuate("s", punctuation(size=before(0.5), ts=within(3, 6)))
    late = [row(2, size=4.0), row(2, size=7.5), row(4, "b", size=0.1)]
    kept = [row(2, size=8.0), row(2, "b", size=5.0), row(7, "b", size=0.1), row(4, "b", size=0.6)]
    out += run.push("s", [*late, *kept]) + run.finish()
    table = {p["k"]: p["n"] for _, _, p in tw.cht(list(tw.elements_of(out)))}
    assert table == {"a": 2, "b": 3}
    assert (run.late_count("s") if engine == "in-process" else run.late_rows) == 3


@both
def test_a_range_of_time_that_follows_a_promise_closes_windows(engine: str) -> None:
    run = ENGINES[engine](source().tumbling(10).aggregate(n=tw.count()), consistency="final")
    run.push("s", [row(1), row(12)])
    assert not news(run.punctuate("s", punctuation(ts=within(5, 20))))
    assert [start for start, *_ in news(run.push("s", tw.cti(5)))] == [0, 10]


@both
def test_ranges_of_a_column_join_up_and_free_what_they_close(engine: str) -> None:
    query = source(progressing="end").sliding(10, over="end").aggregate(n=tw.count())
    run = ENGINES[engine](query, consistency="final")
    for ten in range(20):
        run.push("s", [row(ten, end=10 * ten + at) for at in range(5)])
    assert not news(run.punctuate("s", punctuation(end=within(60, 200))))
    assert not news(run.punctuate("s", punctuation(end=within(20, 60))))
    before_it = _held(run) if engine == "in-process" else 0
    assert len(news(run.punctuate("s", punctuation(end=before(25))))) == 20
    if engine == "in-process":
        assert _held(run) * 3 < before_it


def _held(engine: tw.Engine) -> int:
    return sum(size.rows for size in engine.state_size().values())


@both
def test_a_range_of_time_of_one_group_closes_its_windows(engine: str) -> None:
    query = source(group_ctis="k").group_by("k").tumbling(10).aggregate(n=tw.count())
    run = ENGINES[engine](query, consistency="final")
    run.push("s", [row(1), row(1, "b")])
    assert not news(run.push("s", tw.cti(4, {"k": "a"})))
    assert news(run.punctuate("s", punctuation(k="a", ts=within(3, 15)))) == [(0, "a", 1)]


@both
def test_a_value_and_a_range_close_the_windows_of_one_group(engine: str) -> None:
    """Value, range and wildcard together: of one group, a column up to a bound, whatever the
    size."""
    stream = source(progressing="end", group_ctis="k", late="drop")
    query = stream.where("size > 0").group_by("k").sliding(10, over="end").aggregate(n=tw.count())
    run = ENGINES[engine](query, consistency="final")
    run.push("s", [row(1, end=3), row(2, end=7), row(3, "b", end=4), row(4, end=15)])
    assert news(run.punctuate("s", punctuation(k="a", end=before(12)))) == [(0, "a", 2)]
    assert not news(run.punctuate("s", punctuation(k="a", end=within(40, 50))))
    assert not news(run.punctuate("s", punctuation(k="b", end=within(5, 12))))
    run.push("s", [row(5, end=11), row(6, "b", end=2)])
    assert news(run.punctuate("s", punctuation(k="a", end=within(12, 40)))) == [(10, "a", 1)]
    late = run.late_count("s") if engine == "in-process" else run.late_rows
    assert late == 1, "a row of a before 12"
    assert news(run.punctuate("s", punctuation(end=before(5)))) == [(0, "b", 2)]
    rest = news(run.push("s", [row(7, "b", end=20)]) + run.finish())
    assert rest == [(20, "b", 1)]


def test_a_bound_for_one_group_survives_a_restart() -> None:
    stream = source(progressing="end", group_ctis="k", late="drop")
    query = stream.group_by("k").sliding(10, over="end").aggregate(n=tw.count())
    engine = tw.Engine(query, consistency="final")
    engine.push("s", [row(1, end=3), row(2, "b", end=4)])
    assert news(engine.punctuate("s", punctuation(k="a", end=before(12)))) == [(0, "a", 1)]
    again = tw.Engine.restore(query, engine.snapshot(), consistency="final")
    again.push("s", [row(3, end=2), row(3, "b", end=2)])
    assert again.late_count("s") == 1
    assert news(again.finish()) == [(0, "b", 2)]


def test_what_is_said_of_a_column_of_one_group_ends_where_the_column_does() -> None:
    """An aggregate that is called like the column says nothing about it."""
    stream = source(group_ctis="k").group_by("k").tumbling(10).aggregate(end=tw.max_("end"))
    over = stream.alter_lifetime(start="end", duration=1).group_by("k").tumbling(10)
    engine = tw.Engine(over.aggregate(n=tw.count()), consistency="final")
    engine.push("s", [row(1, end=3)])
    assert not news(engine.punctuate("s", punctuation(k="a", end=before(100))))
    engine.push("s", [row(2, end=200), row(2, "b", end=4)])
    assert sorted(news(engine.finish())) == [(0, "b", 1), (200, "a", 1)]


def test_a_pattern_waits_in_a_snapshot() -> None:
    query = source().tumbling(10).aggregate(n=tw.count())
    engine = tw.Engine(query, consistency="final")
    engine.push("s", [row(1)])
    engine.punctuate("s", punctuation(ts=within(5, 20)))
    engine = tw.Engine.restore(query, engine.snapshot(), consistency="final")
    assert news(engine.push("s", tw.cti(5))) == [(0, 1)]


def test_rows_that_may_be_adjusted_are_not_closed_by_a_range() -> None:
    """A pattern speaks of new rows; an adjust may still come."""
    stream = tw.source("s", COLUMNS)
    engine = tw.Engine(stream.tumbling(10).aggregate(n=tw.count()), consistency="final")
    engine.push("s", [row(1), tw.cti(1)])
    assert not news(engine.punctuate("s", punctuation(ts=within(1, 20))))
    assert news(engine.push("s", [tw.remove(row(1).payload, 1, 2), tw.cti(30)])) == []


def test_shards_must_know_that_patterns_come() -> None:
    engine = DividedEngine(tw.source("s", COLUMNS, insert_only=True).where("end > 0"))
    with pytest.raises(PlanError, match="patterns=True"):
        engine.punctuate("s", punctuation(end=within(1, 5)))


def test_rows_of_a_file_are_patterns(tmp_path: Path) -> None:
    ranges = (("ts", "from", "to"), ("end", "low", "high"))
    times = EventColumns("ts", punctuation=parse("k = '!'"), ranges=ranges)
    table = pa.table(
        {
            "ts": [1, 2, 3, 4],
            "k": ["a", "!", "!", "!"],
            "end": [7, None, None, None],
            "from": pa.array([None, 5, None, None], pa.int64()),
            "to": pa.array([None, 9, None, None], pa.int64()),
            "low": pa.array([None, None, 3, None], pa.int64()),
            "high": pa.array([None, None, 8, None], pa.int64()),
        }
    )
    schema = pa.schema([("k", pa.string()), ("end", pa.int64())])
    batch, header = times.chunk(table, schema, "here")
    assert len(batch) == 1
    assert list(header.patterns) == [
        punctuation(ts=within(5, 9)),
        punctuation(end=within(3, 8)),
    ]
    columns = pa.schema([("ts", pa.int64()), ("from", pa.int64()), *schema])
    with pytest.raises(UnknownColumnError, match="till"):
        from_files(
            str(tmp_path),
            time="ts",
            columns=columns,
            punctuation="k = '!'",
            ranges={"end": ("from", "till")},
        )
    with pytest.raises(PlanError, match="give punctuation= too"):
        from_files(str(tmp_path), time="ts", columns=columns, ranges={"end": ("from", "from")})
