"""The first hour of a newcomer: more than forty tasks, run from the installed wheel outside the
checkout.

Each task is a function that ends with the right answer, or with the one sentence that says what to
do. `python tasks.py core|full|spark` runs those of one environment and prints a JSON object a line:
the task, and what went wrong with it (null when nothing did).
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TASKS: dict[str, list[Callable[[], None]]] = {"core": [], "full": [], "spark": []}
CSV = "ts,item,qty\n2026-03-01T10:00:00Z,a,1\n2026-03-01T10:20:00Z,b,2\n2026-03-01T11:10:00Z,a,3\n"


def task(where: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(function: Callable[[], None]) -> Callable[[], None]:
        TASKS[where].append(function)
        return function

    return add


def rows() -> list[dict[str, Any]]:
    hours = ((10, 0, "a", 1), (10, 20, "b", 2), (11, 10, "a", 3))
    return [
        {"ts": datetime(2026, 3, 1, hour, minute, tzinfo=UTC), "item": item, "qty": qty}
        for hour, minute, item, qty in hours
    ]


def command(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "thalweg", *args],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def said(action: Callable[[], object]) -> str:
    """What an error says; its first line."""
    try:
        action()
    except Exception as error:
        return str(error).splitlines()[0]
    raise AssertionError("nothing was refused")


# ------------------------------------------------------------------------------------------------
# the in-process engine alone


@task("core")
def import_and_version() -> None:
    import thalweg

    assert thalweg.__version__ and Path(thalweg.__file__).with_name("py.typed").exists()


@task("core")
def command_answers() -> None:
    assert "Continuous queries" in command("--help").stdout
    assert "thalweg, version" in command("--version").stdout
    assert "bench" not in command("--help").stdout  # benchmarks are not part of the wheel


@task("core")
def doctor_says_what_is_there() -> None:
    done = command("doctor")
    assert done.returncode == 0 and "pip install 'thalweg[spark]'" in done.stdout, done


@task("core")
def a_command_says_which_extra_it_needs() -> None:
    done = command("sql", "-e", "SELECT 1")
    assert "pip install 'thalweg[sql-shell]'" in done.stderr and "Traceback" not in done.stderr


@task("core")
def spark_says_which_extra_it_needs() -> None:
    import thalweg as tw

    assert "pip install 'thalweg[spark]'" in said(lambda: tw.from_files("x", time="ts"))


@task("core")
def pandas_says_which_extra_it_needs() -> None:
    import thalweg as tw

    answers = tw.table(tw.from_frame(rows(), time="ts"))
    assert "pip install 'thalweg[pandas]'" in said(answers.to_pandas)


@task("core")
def quantiles_need_no_extra() -> None:
    import thalweg as tw

    hours = tw.from_frame(rows(), time="ts").tumbling("1 h")
    answers = tw.table(hours.aggregate(m=tw.approx_percentile("qty", 0.5)))
    assert [row["m"] for _, _, row in answers] == [1.0, 3.0]


@task("core")
def first_answer_from_a_list_of_dictionaries() -> None:
    import thalweg as tw

    orders = tw.from_frame(rows(), time="ts")
    hourly = tw.table(orders.tumbling("1 h").aggregate(n=tw.count(), q=tw.sum_("qty")))
    assert [(start.hour, row["n"], row["q"]) for start, _, row in hourly] == [
        (10, 2, 3),
        (11, 1, 3),
    ]


@task("core")
def whole_numbers_as_times() -> None:
    import thalweg as tw

    clicks = tw.source("clicks", {"page": "string"})
    query = clicks.group_by("page").tumbling(10).aggregate(n=tw.count())
    answers = tw.table(query, {"clicks": [tw.point({"page": "a"}, 3), tw.point({"page": "a"}, 12)]})
    assert answers == [(0, 10, {"page": "a", "n": 1}), (10, 20, {"page": "a", "n": 1})]


@task("core")
def an_answer_is_revised_and_becomes_final() -> None:
    import thalweg as tw

    engine = tw.Engine(tw.source("s", {"v": "int64"}).tumbling(10).aggregate(n=tw.count()))
    engine.push("s", tw.point({"v": 1}, 3))
    early = list(tw.elements_of(engine.push("s", tw.point({"v": 1}, 15))))
    revised = list(tw.elements_of(engine.push("s", tw.point({"v": 1}, 4))))
    final = list(tw.elements_of(engine.push("s", tw.cti(20))))
    assert early == [tw.insert({"n": 1}, 0, 10)]
    assert tw.remove({"n": 1}, 0, 10) in revised and tw.insert({"n": 2}, 0, 10) in revised
    assert tw.cti(20) in final


@task("core")
def a_timestamp_column_stays_one() -> None:
    import pyarrow as pa

    import thalweg as tw

    frame = pa.table({"ts": pa.array([0, 1], pa.timestamp("s", "Asia/Tokyo")), "v": [1, 2]})
    out = tw.table(tw.from_frame(frame, time="ts")).to_arrow()
    assert out.schema.field("_start").type == pa.timestamp("us", "Asia/Tokyo")


@task("core")
def why_speaks_of_dates() -> None:
    import pyarrow as pa

    import thalweg as tw

    columns: dict[str, str | pa.DataType]
    columns = {"ts": pa.timestamp("us", "UTC"), "item": "string", "qty": "int64"}
    orders = tw.source("orders", columns, time="ts", disorder="5 min")
    engine = tw.Engine(orders.tumbling("1 h").aggregate(n=tw.count()))
    engine.push("orders", rows())
    told = str(engine.why(datetime(2026, 3, 1, 11, tzinfo=UTC)))
    assert "a row at 2026-03-01 12:05:00+00:00 or later" in told, told


@task("core")
def late_events_are_named_by_date() -> None:
    import pyarrow as pa

    import thalweg as tw

    columns: dict[str, str | pa.DataType]
    columns = {"ts": pa.timestamp("us", "UTC"), "item": "string", "qty": "int64"}
    engine = tw.Engine(tw.source("orders", columns, time="ts", disorder="5 min"))
    engine.push("orders", rows())
    late = [{"ts": datetime(2026, 3, 1, tzinfo=UTC), "item": "a", "qty": 1}]
    assert "2026-03-01 00:00:00+00:00" in said(lambda: engine.push("orders", late))


@task("core")
def a_column_of_another_type_is_refused_by_name() -> None:
    import pyarrow as pa

    import thalweg as tw

    engine = tw.Engine(tw.source("s", {"ts": "int64", "n": "int64"}, time="ts"))
    frame = pa.table({"ts": [1], "n": ["x"]})
    assert "the column 'n' is string" in said(lambda: engine.push("s", frame))


@task("core")
def a_payload_that_lacks_a_column_is_refused() -> None:
    import thalweg as tw

    engine = tw.Engine(tw.source("s", {"a": "int64", "b": "int64"}))
    assert "lacks the columns ['b']" in said(lambda: engine.push("s", tw.point({"a": 1}, 1)))


@task("core")
def names_of_other_systems_are_answered() -> None:
    import thalweg as tw

    stream = tw.source("s", {"a": "int64"})
    assert "here it is where" in said(lambda: stream.filter("a > 1"))
    assert "here it is group_by" in said(lambda: stream.groupBy("a"))
    assert "here it is sum_" in said(lambda: tw.sum("a"))


@task("core")
def a_misspelt_column_is_refused_on_its_line() -> None:
    import thalweg as tw

    stream = tw.source("s", {"price": "double"})
    assert "Did you mean 'price'?" in said(lambda: stream.where("pric > 1"))


@task("core")
def points_joined_without_a_window_are_refused() -> None:
    import thalweg as tw

    one, two = (tw.from_frame(rows(), time="ts", name=name) for name in ("one", "two"))
    assert "window=tw.band(" in said(lambda: one.join(two, on="item"))


@task("core")
def too_many_windows_are_refused() -> None:
    import thalweg as tw

    assert "windows" in said(lambda: tw.source("s", {"a": "int64"}).hopping("1 day", "1 us"))


@task("core")
def flinks_interval_join() -> None:
    import thalweg as tw

    orders = tw.from_frame(rows(), time="ts", name="o")
    paid = [{**row, "ts": row["ts"].replace(minute=row["ts"].minute + 5)} for row in rows()]
    text = (
        "SELECT o.item FROM o JOIN p ON o.item = p.item AND p.ts BETWEEN o.ts AND o.ts + INTERVAL "
        "'10' MINUTE"
    )
    query = tw.sql(text, o=orders, p=tw.from_frame(paid, time="ts", name="p"))
    assert sorted(row["item"] for _, _, row in tw.table(query)) == ["a", "a", "b"]


@task("core")
def flinks_tumble_in_sql() -> None:
    import thalweg as tw

    text = (
        "SELECT window_start, count(DISTINCT item) AS items FROM TUMBLE(TABLE o, DESCRIPTOR(ts), "
        "INTERVAL '1' HOUR) GROUP BY window_start, window_end HAVING count(*) > 1"
    )
    answers = tw.table(tw.sql(text, o=tw.from_frame(rows(), time="ts")))
    assert [row for _, _, row in answers] == [
        {"window_start": datetime(2026, 3, 1, 10, tzinfo=UTC), "items": 2}
    ]


@task("core")
def sparks_window_in_sql() -> None:
    import thalweg as tw

    text = "SELECT window.start, sum(qty) AS q FROM o GROUP BY window(ts, '1 hour')"
    answers = tw.table(tw.sql(text, o=tw.from_frame(rows(), time="ts")))
    assert [row["q"] for _, _, row in answers] == [3, 3]


@task("core")
def over_a_span_of_time() -> None:
    import thalweg as tw

    text = (
        "SELECT item, sum(qty) OVER (PARTITION BY item ORDER BY ts RANGE BETWEEN INTERVAL '2' HOUR "
        "PRECEDING AND CURRENT ROW) AS q FROM o"
    )
    answers = tw.table(tw.sql(text, o=tw.from_frame(rows(), time="ts")))
    assert [row["q"] for _, _, row in answers] == [1, 2, 4]


@task("core")
def times_and_text_in_expressions() -> None:
    import thalweg as tw

    orders = tw.from_frame(rows(), time="ts")
    kept = orders.where("_start >= '2026-03-01 10:10' AND item ILIKE 'A' AND qty::double / 2 > 1")
    assert [row["qty"] for _, _, row in tw.table(kept)] == [3]


@task("core")
def an_unknown_function_is_called_unknown() -> None:
    import thalweg as tw

    orders = tw.from_frame(rows(), time="ts")
    text = "SELECT lenght(item) FROM o"
    assert "unknown function 'lenght'. Did you mean 'length'?" in said(
        lambda: tw.sql(text, o=orders)
    )
    assert "gives another value whenever" in said(lambda: tw.sql("SELECT now() FROM o", o=orders))


@task("core")
def an_aggregate_of_ones_own_beside_others() -> None:
    import thalweg as tw
    from thalweg import udm

    @udm.aggregate("first.spread", inputs={"v": "int64"}, output="int64")
    def spread(values: Any) -> int:
        return int(max(values) - min(values))

    hours = tw.from_frame(rows(), time="ts").tumbling("1 h")
    answers = tw.table(hours.aggregate(n=tw.count(), s=tw.module(spread, "qty")))
    assert [row for _, _, row in answers] == [{"n": 2, "s": 1}, {"n": 1, "s": 0}]


@task("core")
def final_answers_only() -> None:
    import thalweg as tw

    hourly = tw.from_frame(rows(), time="ts").tumbling("1 h").aggregate(n=tw.count())
    changes = tw.changes(hourly, consistency="final")
    assert changes.to_arrow().column("_kind").to_pylist() == [0, 0]


@task("core")
def a_notebook_shows_tables() -> None:
    import thalweg as tw

    orders = tw.from_frame(rows(), time="ts")
    assert "<td>2026-03-01 10:00:00+00:00</td>" in tw.table(orders)._repr_html_()


@task("core")
def times_written_as_text() -> None:
    import thalweg as tw

    written = [{"ts": "2026-03-01T10:05:00+01:00", "v": 1}, {"ts": "2026-03-01T09:50:00Z", "v": 2}]
    answers = tw.table(tw.from_frame(written, time="ts").tumbling("1 h").aggregate(n=tw.count()))
    assert [(str(start), row) for start, _, row in answers] == [
        ("2026-03-01 09:00:00+00:00", {"n": 2})
    ]


@task("core")
def a_file_by_its_name_in_python() -> None:
    import thalweg as tw

    Path("by_name.csv").write_text(CSV, encoding="utf-8")
    answers = tw.table(
        tw.from_frame("by_name.csv", time="ts").tumbling("1 h").aggregate(n=tw.count())
    )
    assert [row["n"] for _, _, row in answers] == [2, 1]


@task("core")
def an_operator_of_ones_own_in_sql() -> None:
    import thalweg as tw
    from thalweg import udm

    @udm.operator("first.large", inputs={"qty": "int64"}, output={"large": "int64"})
    def large(values: Any) -> list[dict[str, int]]:
        return [{"large": int(value)} for value in values if value > 1]

    text = "SELECT large(qty) FROM TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '1' HOUR)"
    answers = tw.table(tw.sql(text, o=tw.from_frame(rows(), time="ts")))
    assert [row for _, _, row in answers] == [{"large": 2}, {"large": 3}]


@task("core")
def plans_speak_of_durations() -> None:
    import thalweg as tw

    query = tw.from_frame(rows(), time="ts", disorder="5 min").tumbling("1 h")
    text = query.aggregate(n=tw.count()).explain()
    assert "tumbling(1 h)" in text and "disorder 5 min" in text
    assert "3600000000" not in text and "<pre>" in text._repr_html_()  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------------
# with the extras


@task("full")
def pandas_in_and_out() -> None:
    import pandas as pd

    import thalweg as tw

    out = tw.table(tw.from_frame(pd.DataFrame(rows()), time="ts")).to_pandas()
    assert str(out["_start"].dtype) == "datetime64[us, UTC]" and list(out["qty"]) == [1, 2, 3]


@task("full")
def polars_in_and_out() -> None:
    import polars as pl

    import thalweg as tw

    out = tw.table(tw.from_frame(pl.DataFrame(rows()), time="ts")).to_polars()
    assert out["_start"].dtype == pl.Datetime("us", "UTC") and out["item"].to_list() == [
        "a",
        "b",
        "a",
    ]


@task("full")
def duckdb_in_and_out() -> None:
    import duckdb
    import pandas as pd

    import thalweg as tw

    frame = pd.DataFrame(rows())  # noqa: F841 - DuckDB finds it by its name
    answers = tw.table(  # noqa: F841 - and this too
        tw.from_frame(duckdb.sql("SELECT * FROM frame"), time="ts")
    ).to_arrow()
    found = duckdb.sql("SELECT sum(qty) FROM answers")
    assert found is not None and found.fetchall() == [(6,)]


@task("full")
def pandas_times_for_elements() -> None:
    import numpy as np
    import pandas as pd

    import thalweg as tw

    assert tw.point({}, pd.Timestamp("2026-03-01")) == tw.point({}, np.datetime64("2026-03-01"))


@task("full")
def a_csv_file_by_its_name() -> None:
    Path("orders.csv").write_text(CSV, encoding="utf-8")
    done = command("sql", "--json", "-e", "SELECT item, qty FROM 'orders.csv' WHERE hour(ts) = 11")
    assert json.loads(done.stdout)["_start"] == "2026-03-01T11:10:00+00:00", done
    assert "in-process" in done.stderr


@task("full")
def a_script_through_a_pipe() -> None:
    Path("orders.csv").write_text(CSV, encoding="utf-8")
    script = (
        "CREATE TABLE orders WITH ('path' = 'orders.csv', 'time' = 'ts'); SHOW TABLES;"
        "SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) AS h, sum(qty) AS q FROM orders "
        "GROUP BY TUMBLE(ts, INTERVAL '1' HOUR); quit;"
    )
    done = command("sql", "--json", stdin=script)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [row["q"] for row in answers] == [3, 3], done


@task("full")
def a_missing_folder_is_said_in_a_sentence() -> None:
    done = command("sql", "-e", "SELECT 1 FROM 'nowhere.csv'")
    assert done.returncode == 1 and "nowhere.csv" in done.stderr and "Traceback" not in done.stderr


@task("full")
def sketches_work() -> None:
    import thalweg as tw

    hours = tw.from_frame(rows(), time="ts").tumbling("1 h")
    answers = tw.table(hours.aggregate(m=tw.approx_percentile("qty", 0.5)))
    assert [row["m"] for _, _, row in answers] == [1.0, 3.0]


@task("full")
def a_picture_of_a_query() -> None:
    import thalweg as tw

    hours = tw.from_frame(rows(), time="ts").tumbling("1 h").aggregate(n=tw.count())
    hours.plot().save("picture.svg")
    assert "<svg" in Path("picture.svg").read_text(encoding="utf-8")


@task("full")
def the_demo_as_lines() -> None:
    done = command("demo", "--in-process", "--packets", "10000")
    assert done.returncode == 0, done.stderr
    for word in ("early", "final", "the same table"):
        assert word in done.stdout
    assert "1970" not in done.stdout and not done.stderr


# ------------------------------------------------------------------------------------------------
# on Spark, in one session


@task("spark")
def files_on_spark_and_frames_out() -> None:
    import thalweg as tw
    from thalweg import spark

    Path("days").mkdir(exist_ok=True)
    Path("days/orders.csv").write_text(CSV, encoding="utf-8")
    orders = tw.from_files("days", time="ts", format="csv", disorder="1 h", finish=True)
    hourly = orders.tumbling("1 h").aggregate(n=tw.count())
    running = spark.start(hourly, trigger="available now", progress=False)
    running.wait()
    answers = running.table()
    running.stop()
    assert [str(start) for start, _, _ in answers] == [
        "2026-03-01 10:00:00+00:00",
        "2026-03-01 11:00:00+00:00",
    ]
    assert list(answers.to_pandas()["n"]) == [2, 1] and answers.to_polars()["n"].to_list() == [2, 1]


@task("spark")
def why_on_spark_speaks_of_dates() -> None:
    import thalweg as tw
    from thalweg import spark

    silent = tw.from_files("days", time="ts", format="csv").tumbling("1 h").aggregate(n=tw.count())
    refused = said(lambda: spark.start(silent, consistency="final", trigger="available now"))
    assert "the source 'days' makes none. Say how late" in refused, refused
    orders = tw.from_files("days", time="ts", format="csv", disorder="5 min")
    running = spark.start(
        orders.tumbling("1 h").aggregate(n=tw.count()), trigger="available now", progress=False
    )
    running.wait()
    told = str(running.why(datetime(2026, 3, 1, 11, tzinfo=UTC)))
    running.stop()
    assert "what starts at 2026-03-01 11:00:00+00:00 is not final" in told, told


@task("spark")
def sql_on_spark_is_sql_in_process() -> None:
    import thalweg as tw
    from thalweg import spark

    text = (
        "SELECT window_start, count(DISTINCT item) AS n FROM TUMBLE(TABLE o, DESCRIPTOR(ts), "
        "INTERVAL '1' HOUR) GROUP BY window_start, window_end"
    )
    orders = tw.from_files("days", time="ts", format="csv", disorder="1 h", finish=True)
    running = spark.start(tw.sql(text, o=orders), trigger="available now", progress=False)
    running.wait()
    answers = [row for _, _, row in running.table()]
    running.stop()
    assert answers == [
        row for _, _, row in tw.table(tw.sql(text, o=tw.from_frame(rows(), time="ts")))
    ]


@task("spark")
def answers_in_files_have_timestamps() -> None:
    import pyarrow as pa
    import pyarrow.dataset as ds

    import thalweg as tw
    from thalweg import spark

    orders = tw.from_files("days", time="ts", format="csv", disorder="1 h", finish=True)
    hourly = orders.tumbling("1 h").aggregate(n=tw.count())
    running = spark.start(
        hourly,
        to="parquet",
        path="hourly",
        output="final",
        consistency="final",
        trigger="available now",
        progress=False,
    )
    running.wait()
    running.stop()
    written = ds.dataset("hourly", partitioning="hive").to_table().sort_by("_start")
    starts = written.column("_start").cast(pa.timestamp("us", "UTC")).to_pylist()
    assert [str(start) for start in starts] == [
        "2026-03-01 10:00:00+00:00",
        "2026-03-01 11:00:00+00:00",
    ]


@task("spark")
def a_changed_query_is_refused_in_its_words() -> None:
    import thalweg as tw
    from thalweg import spark

    orders = tw.from_files("days", time="ts", format="csv", disorder="1 h", finish=True)

    def start(size: str) -> Any:
        query = orders.tumbling(size).aggregate(n=tw.count())
        return spark.start(query, checkpoint="kept", trigger="available now", progress=False)

    start("1 h").wait()
    refused = said(lambda: start("2 h"))
    assert "was 'tumbling(1 h): n = count()', and is now 'tumbling(2 h): n = count()'" in refused


def main() -> None:
    for function in TASKS[sys.argv[1]]:
        wrong = None
        try:
            function()
        except BaseException:
            wrong = traceback.format_exc()
        sys.stdout.write(json.dumps({"task": function.__name__, "wrong": wrong}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
