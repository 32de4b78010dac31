"""What people get wrong in their first hour is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg.aggregates import Aggregate
from thalweg.errors import (
    EvaluationError,
    InputError,
    PlanError,
    SchemaChangeError,
    ThalwegError,
)
from thalweg.windows import Membership, Tuples, WindowIds, WindowKind


def frame_of(*times: object) -> tw.Stream:
    return tw.from_frame([{"ts": time, "v": 1} for time in times], time="ts")


CALLS: Any = tw.source("calls", {"who": "string"})
HOST: Any = tw.Host
untyped: Any = tw  # for mistakes that a type checker finds too


def after_the_end() -> None:
    engine = tw.Engine(CALLS)
    engine.finish()
    engine.push("calls", tw.point({"who": "a"}, 1))


def push_time(time: object) -> None:
    tw.Engine(frame_of(datetime(2026, 3, 1))).push("frame", [{"ts": time, "v": 1}])


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (lambda: tw.Engine(CALLS.tumbling(10)), r"Finish it with \.aggregate"),
        (lambda: tw.table(CALLS.group_by("who"), {"calls": []}), r"Finish it with \.aggregate"),
        (lambda: HOST().add("q", CALLS.tumbling(10)), "the query 'q' must be a stream"),
        (lambda: untyped.Engine(None), "the query must be a stream; got None"),
        (lambda: untyped.table(CALLS, [tw.point({"who": "a"}, 1)]), r"\{'calls': \[\.\.\.\]\}"),
        (lambda: untyped.source(5, {"k": "string"}), "the name of a source is text"),
        (lambda: untyped.source("s", {5: "string"}), "the name of a column is text"),
        (lambda: untyped.source("s", {"k": dict}), "unknown type 'dict'"),
        (lambda: untyped.source("s", {"k": 5}), "unknown type 5"),
        (lambda: untyped.source("s", {"k": "string"}, quarantine=5), "quarantine= takes"),
        (lambda: untyped.sequence([CALLS, CALLS], "who"), "give the steps by name"),
        (lambda: tw.from_frame([], time="ts"), "an empty list has no columns; give columns="),
        (lambda: CALLS.where(lambda row: row), "got the function.*thalweg.udm.function"),
        (lambda: CALLS.group_by(lambda row: row), r"is not a column.*group_by\(name='SQL text'\)"),
        (lambda: CALLS.tumbling(10).aggregate(tw.count()), r"give each its name, n=count\(\)"),
        (lambda: untyped.sql("SELECT * FROM f", f=pa.table({"v": [1]})), "from_frame"),
        (lambda: tw.Engine(CALLS).push("calls", {"who": "a"}), "needs the time column _start"),
        (lambda: tw.Engine(CALLS).push("calls", untyped.point({"who": "a"}, "noon")), "is 'noon'"),
        (
            lambda: frame_of(1).where("ts > 0"),
            r"unknown column 'ts'\. .*time of the rows, .*_start",
        ),
        (lambda: frame_of(1).group_by("ts"), r"unknown column 'ts'\. .*time of the rows, .*_start"),
        (lambda: CALLS.where('who = "ann"'), r"between single quotes: 'ann'\."),
        (lambda: tw.sql('SELECT who FROM c WHERE who = "ann"', c=CALLS), r"quotes: 'ann'\."),
        (lambda: CALLS.where("who > 'a' && who < 'b'"), r"'&' is not part .* Write AND\."),
        (lambda: tw.sql("SELECT who FROM c WHERE who > 'a' & true", c=CALLS), r"Write AND\."),
        (
            lambda: CALLS.aggregate(n=tw.count()),
            r"here it is aggregate behind a window: \.tumbling",
        ),
        (lambda: CALLS.tumbling(10).agg(n=tw.count()), r"no 'agg'; here it is aggregate\."),
        (lambda: untyped.col("who").max(), r"here it is an aggregate, tw\.max_\(x\)"),
        (lambda: untyped.col("who").lower(), r"functions are called: tw\.call\('lower', x"),
        (lambda: tw.table(CALLS, {"call": []}), "one for 'call', which is no source here"),
        (after_the_end, "comes after the end of its source: it has finished"),
        (lambda: frame_of("noon"), "row 0: the time 'ts' is 'noon', which is no ISO 8601"),
        (lambda: frame_of(1, None), "source 'frame', row 1: the time 'ts' is null; leave such"),
        (lambda: untyped.from_frame(pa.table({"ts": [1], "v": [1]}), time=0), "time= is the name"),
        (lambda: untyped.Engine.restore(b"bytes", CALLS), "got 5 bytes. A snapshot comes second"),
        (lambda: CALLS.where(untyped.col("who") == None), r"use \.is_null\(\)"),  # noqa: E711
        (lambda: CALLS.where(untyped.col("who") != None), r"use \.is_not_null\(\)"),  # noqa: E711
        (lambda: CALLS.select(["who"]), r"one by one: select\('who'\)"),
        (lambda: CALLS.group_by(["who", "x"]), r"one by one: group_by\('who', 'x'\)"),
        (lambda: CALLS.drop(["who"]), r"one by one: drop\('who'\)"),
        (lambda: CALLS.select("*"), "with_columns keeps all columns"),
        (lambda: CALLS.tumbling("1 month"), r"calendar\('month'\) makes windows of them"),
        (lambda: CALLS.tumbling(""), "'' is not understood"),
        (lambda: CALLS.tumbling(1).aggregate(n=tw.sum_("who")), r"CAST\(who AS double\), or TRY_"),
        (lambda: CALLS.select(day="try_cast(1 as date)"), "is not defined for these types"),
        (
            lambda: tw.from_frame(
                pa.table({"ts": pa.array([1], pa.timestamp("us", "Mars")), "v": [1]}), time="ts"
            ),
            "column 'ts' is in the unknown time zone 'Mars'",
        ),
        (lambda: push_time("noon"), r"source 'frame', input 0, row 0: the time 'ts' is 'noon'"),
        (lambda: push_time(None), r"source 'frame', input 0, row 0: the time 'ts' is null"),
        (lambda: untyped.Engine(CALLS).why("noon"), "got 'noon'"),
        (lambda: untyped.Engine(CALLS).why(1.5), r"got 1\.5"),
        (lambda: untyped.Engine(CALLS).skip_before("noon"), "got 'noon'"),
    ],
)
def test_a_mistake_is_refused(mistake: Callable[[], object], says: str) -> None:
    with pytest.raises(ThalwegError, match=says):
        mistake()


COUNTED = {"ts": "timestamptz", "qty": "int64"}


def test_files_without_rows_say_no_types_and_take_them_from_those_that_have_rows(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.csv").write_text("ts,qty\n")
    with pytest.raises(InputError, match=r"a\.csv has a line of names and no rows.*Give columns="):
        tw.from_frame(tmp_path, time="ts")
    assert not tw.table(tw.from_frame(tmp_path, time="ts", columns=COUNTED))
    (tmp_path / "b.csv").write_text("ts,qty\n2026-03-01T10:05:00Z,2\n")
    assert [row for *_, row in tw.table(tw.from_frame(tmp_path, time="ts"))] == [{"qty": 2}]


def test_frames_take_declared_types() -> None:
    assert not tw.table(tw.from_frame([], time="ts", columns=COUNTED))
    rows = [{"ts": "2026-03-01T10:05:00Z", "qty": 2.5}]
    with pytest.raises(SchemaChangeError, match="'qty' is double; the source declared int64"):
        tw.from_frame(rows, time="ts", columns=COUNTED)


def test_files_whose_numbers_differ_in_width_are_one_stream(tmp_path: Path) -> None:
    for name, kind in [("a", pa.int32()), ("b", pa.int64())]:
        pq.write_table(
            pa.table({"ts": [1], "v": pa.array([1], kind)}), tmp_path / f"{name}.parquet"
        )
    assert len(tw.table(tw.from_frame(tmp_path, time="ts"))) == 2


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "ts;v\n1;2\n", "separates its columns with ';'"),
        ("a.csv", "ts, v\n1,2\n", "Columns here: ' v', _start"),
        ("a.json", '[{"ts": 1, "v": 2}]\n', "it is one array; JSON lines have one object a line"),
        ("a.csv", "ts,v\n3 March,2\n", "row 0: the time 'ts' is '3 March'"),
    ],
)
def test_files_that_are_written_in_another_way(
    name: str, text: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ThalwegError, match=says):
        tw.from_frame(tmp_path, time="ts").where("v > 1")


def test_a_frame_without_rows_may_have_any_types() -> None:
    """Those of pandas are doubles or objects then."""
    calls = tw.source("calls", {"ts": "timestamp", "who": "string"}, time="ts")
    empty = pa.table({"ts": pa.array([], pa.float64()), "who": pa.array([], pa.float64())})
    assert not tw.table(calls, {"calls": [empty]})


def test_two_frames_of_one_name_are_not_taken_for_one() -> None:
    few = tw.from_frame([{"ts": 1, "v": 1}], time="ts")
    more = tw.from_frame([{"ts": 1, "v": 1}, {"ts": 2, "v": 2}], time="ts")
    with pytest.raises(
        PlanError, match=r"two sources .* are called 'frame'.*from_frame\(..., name="
    ):
        tw.table(few.union(more))
    again = tw.from_frame([{"ts": 1, "v": 1}], time="ts")
    assert len(tw.table(few.union(again))) == 2
    assert len(tw.table(few.union(more), {"frame": [tw.point({"v": 5}, 1)]})) == 2


def test_a_categorical_of_polars_is_read() -> None:
    """It comes as a dictionary of views."""
    letters = pa.array(["a", "b", "a"]).dictionary_encode()
    views = pa.DictionaryArray.from_arrays(
        letters.indices, letters.dictionary.cast(pa.string_view())
    )

    class Frame:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            table = pa.table({"ts": [1, 2, 3], "c": views})
            return table.__arrow_c_stream__(requested_schema)

    for frame in (Frame(), pa.table({"ts": [1, 2, 3], "c": views})):
        counts = tw.from_frame(frame, time="ts").group_by("c").tumbling(5).aggregate(n=tw.count())
        assert [(row["c"], row["n"]) for _, _, row in tw.table(counts)] == [("a", 2), ("b", 1)]


def test_the_types_of_python_are_types() -> None:
    made = tw.source("s", {"i": int, "f": float, "t": str, "b": bool})  # type: ignore[dict-item]
    assert made.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.bool_()]


def test_times_that_are_some_hours_from_utc() -> None:
    """`+02:00` is no name that Python's zones have: it ended tables and `why` with a KeyError."""
    east = timezone(timedelta(hours=2))
    times = [datetime(2026, 3, day, 0, 30, tzinfo=east) for day in (1, 2)]
    calls = frame_of(*times)
    daily = tw.table(calls.calendar("day").aggregate(n=tw.count()))
    assert [start for start, _, _ in daily] == [time.replace(minute=0) for time in times]
    assert len(tw.table(calls.where("_start < '2026-03-02' and hour(_start) = 0"))) == 1
    engine = tw.Engine(calls.tumbling("1 h").aggregate(n=tw.count()), consistency="final")
    engine.push("frame", [{"ts": time, "v": 1} for time in times])
    engine.push("frame", tw.cti(int(times[0].timestamp()) * 1_000_000))
    assert "2026-03-01 00:00:00+02:00" in str(engine.why())


def test_times_are_cast_as_they_are_shown() -> None:
    """To a text and a date, in the zone of the stream, as in SQL; to a number from their ticks."""
    calls = frame_of(datetime(2026, 3, 1, 0, 30, tzinfo=ZoneInfo("Asia/Tokyo")))
    columns = {kind: f"cast(_start as {kind})" for kind in ("string", "date", "bigint")}
    ((_, _, row),) = tw.table(calls.select(**columns))
    assert row == {
        "string": "2026-03-01 00:30:00",
        "date": date(2026, 3, 1),
        "bigint": 1_772_292_600_000_000,
    }
    in_sql = "SELECT cast(ts AS string) AS string, cast(ts AS date) AS date FROM c"
    ((_, _, same),) = tw.table(tw.sql(in_sql, c=calls))
    assert same == {name: row[name] for name in same}


class Total(Aggregate):
    """A sum, as a user would write it."""

    name, numeric = "total", True

    def result_type(self, of: Any, by: Any) -> pa.DataType:
        return pa.int64()

    def fields(self, of: Any, by: Any) -> list[pa.Field]:
        return [pa.field("total", pa.int64())]

    def of_rows(self, values: Any) -> list[Any]:
        return [values.of]

    def merge(self, parts: Any, code: Any, size: int) -> list[Any]:
        totals = np.zeros(size, np.int64)
        np.add.at(totals, code, parts[0].to_numpy())
        return [pa.array(totals)]

    def result(self, parts: Any, kind: Any) -> Any:
        return parts[0]


class ShortMerge(Total):
    def merge(self, parts: Any, code: Any, size: int) -> list[Any]:
        return [pa.array([1])]


class LongResult(Total):
    def result(self, parts: Any, kind: Any) -> Any:
        return pa.array([1] * 7)


@pytest.mark.parametrize(
    ("own", "says"),
    [
        (ShortMerge, "total' gave 1 values where 2 belong"),
        (LongResult, "total' gave 7 values where"),
    ],
)
def test_an_aggregate_of_ones_own_gives_a_value_for_each_window(
    own: type[Aggregate], says: str
) -> None:
    """One that was too short or too long gave wrong answers."""
    values = frame_of(1, 2, 7)
    right = values.tumbling(5).aggregate(n=tw.aggregate_by(Total(), "v"))
    assert [row["n"] for *_, row in tw.table(right)] == [2, 1]
    with pytest.raises(EvaluationError, match=says):
        tw.table(values.tumbling(5).aggregate(n=tw.aggregate_by(own(), "v")))
    with pytest.raises(PlanError, match="an object of a class derived from Aggregate"):
        untyped.aggregate_by(own, "v")


@dataclass(frozen=True)
class Fives(WindowKind):
    """Windows of five ticks, whose methods give what a test says."""

    found: Callable[[Any], object]
    edges: Callable[[Any], object] = lambda windows: (windows * 5, windows * 5 + 5)
    context = frozenset()
    longest = 5

    def windows(self, tuples: Tuples) -> WindowIds:
        return WindowIds.of(np.unique(tuples.ts // 5))

    def extent(self, window: int, partition: int, tuples: Tuples) -> Any:
        return tuples.ts // 5 == window

    def wids(self, tuples: Tuples) -> Any:
        return self.found(tuples.ts)

    def time_range(self, windows: Any) -> Any:
        return self.edges(windows)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Fives(lambda ts: ts // 5), r"wids\(\) gives Membership"),
        (Fives(lambda ts: Membership(np.arange(len(ts)), ts / 5)), r"wids\(\) gives Membership"),
        (Fives(lambda ts: Membership(np.arange(1), ts // 5)), r"wids\(\) gives Membership"),
        (
            Fives(lambda ts: Membership(np.arange(len(ts)), ts // 5), lambda windows: windows),
            r"time_range\(\) gives the starts and the ends",
        ),
    ],
)
def test_windows_of_ones_own_are_numbers(kind: WindowKind, says: str) -> None:
    """Windows with a fraction made answers with times that have one."""
    with pytest.raises(EvaluationError, match=says):
        tw.table(frame_of(1, 2, 7).windows(kind).aggregate(n=tw.count()))


def test_new_columns_by_any_name() -> None:
    (found,) = tw.table(frame_of(1).with_columns({"twice as much": "2 * v"}, w="v"))
    assert found[2] == {"v": 1, "twice as much": 2, "w": 1}


def test_equivalent_tables_with_nan() -> None:
    one = [tw.insert({"v": float("nan")}, 1, 2), tw.insert({"v": 0.0}, 1, 2)]
    two = [tw.insert({"v": -0.0}, 1, 2), tw.insert({"v": float("nan")}, 1, 2)]
    assert tw.equivalent(one, two) and not tw.equivalent(one, one[:1])
    assert tw.equivalent([], []) and not tw.equivalent(one, [one[0], tw.insert({"v": 0.0}, 1, 3)])
