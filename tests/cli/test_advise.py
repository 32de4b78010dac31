"""`thalweg advise` and `thalweg why`: what they measure, read and say."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import thalweg as tw
from thalweg.cli import main
from thalweg.errors import InputError
from thalweg.run.advice import advise
from thalweg.shards.local_engine import DividedEngine
from thalweg.shards.reports.combined import write_reports

SECOND = 1_000_000


def stream(random: Random, size: int = 400) -> list[int]:
    """A row each second, a quarter of them late, one by half a minute after the row before it."""
    late = {100: 31} | {
        at: random.randint(0, 20)
        for at in range(size)
        if at not in (99, 100) and random.random() < 0.25
    }
    return [(at - late.get(at, 0)) * SECOND for at in range(size)]


def test_the_curve_is_what_an_engine_does_with_that_slack() -> None:
    times = stream(Random(1))
    told = advise(np.array(times), window=10 * SECOND)
    assert [point.slack for point in told.curve] == sorted(
        {point.slack for point in told.curve}
    ) and told.curve[-1].completeness == 1
    for point in told.curve:
        query = tw.source("s", {"v": "int64"}, disorder=point.slack, late="drop", insert_only=True)
        engine = tw.Engine(query)
        engine.push("s", [tw.point({"v": 1}, time) for time in times])
        assert engine.late_count("s") == point.late
    by_rows = tw.Engine(
        tw.source(
            "s",
            {"v": "int64"},
            progress=tw.late_by_rows(told.overtaken),
            late="error",
            insert_only=True,
        )
    )
    by_rows.push("s", [tw.point({"v": 1}, time) for time in times])
    one_less = tw.source(
        "s",
        {"v": "int64"},
        progress=tw.late_by_rows(told.overtaken - 1),
        late="drop",
        insert_only=True,
    )
    engine = tw.Engine(one_less)
    engine.push("s", [tw.point({"v": 1}, time) for time in times])
    assert engine.late_count("s") > 0


def test_more_slack_costs_latency_and_state() -> None:
    curve = advise(np.array(stream(Random(2))), window=10 * SECOND).curve
    for less, more in itertools.pairwise(curve):
        assert (
            less.completeness <= more.completeness
            and less.latency <= more.latency
            and less.state <= more.state
        )
        assert more.latency >= more.slack


def test_what_is_proposed() -> None:
    assert advise(np.arange(50)).policy == "ordered()"
    assert advise(np.array(stream(Random(3)))).policy == 'late_by("30 s")'
    mostly = np.arange(10_000) * SECOND
    mostly[5_000] -= 900 * SECOND
    assert advise(mostly, target=0.99).policy == 'late_by("0 us")'
    with pytest.raises(InputError, match="no rows"):
        advise(np.empty(0, np.int64))


def test_a_clock_that_is_wrong_is_left_out_and_named() -> None:
    random = Random(4)
    times = np.array(stream(random))
    keys = np.array([random.choice("abc") for _ in times], object)
    times[200], keys[200] = 10**15, "rogue"
    told = advise(times, keys=pa.array(keys, pa.string()))
    assert told.rows == len(times) - 1 and told.slack == 30 * SECOND
    assert "rogue" in told.reasons[0] and "quarantine(" in told.policy
    assert advise(times).policy == 'late_by("11575 d")', "without keys nobody can tell"


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_the_command(tmp_path: Path, format_: str) -> None:
    times = stream(Random(5))
    order = list(range(len(times)))
    table = pa.table({"at": times[::-1], "seq": order[::-1], "k": ["a"] * len(times)})
    file = tmp_path / f"events.{format_}"
    if format_ == "csv":
        pyarrow.csv.write_csv(table, file)
    else:
        pq.write_table(table, file)
    picture = tmp_path / "curve.png"
    arguments = [
        "advise",
        str(file),
        "--time",
        "at",
        "--arrival",
        "seq",
        "--window",
        "10 s",
        "--slack",
        "7 s",
    ]
    told = CliRunner().invoke(main, [*arguments, "--plot", str(picture)], catch_exceptions=False)
    assert told.exit_code == 0, told.output
    assert 'proposed: progress=late_by("30 s")' in told.output and "on time" in told.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    lines = [
        json.loads(line)
        for line in CliRunner().invoke(main, [*arguments, "--json"]).output.splitlines()
    ]
    assert lines[-1]["policy"] == 'late_by("30 s")' and 7 * SECOND in [
        line.get("slack") for line in lines
    ]


def test_mistakes_of_the_command(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [1]}), tmp_path / "one.parquet")
    told = CliRunner().invoke(main, ["advise", str(tmp_path), "--time", "att"])
    assert told.exit_code == 1 and "Did you mean 'at'?" in told.output
    (tmp_path / "empty").mkdir()
    told = CliRunner().invoke(main, ["advise", str(tmp_path / "empty"), "--time", "at"])
    assert told.exit_code == 1 and "there is no" in told.output


# ------------------------------------------------------------------------------------------------
# why


def test_why_reads_the_report_of_a_checkpoint(tmp_path: Path) -> None:
    query = (
        tw.source("s", {"k": "string"}, insert_only=True, disorder=5, late="drop")
        .group_by("k")
        .tumbling(10)
        .aggregate(n=tw.count())
    )
    engine = DividedEngine(query)
    engine.push("s", [tw.point({"k": "a"}, 3), tw.point({"k": "b"}, 18)])
    (tmp_path / "thalweg").mkdir()
    write_reports(tmp_path, 4, engine.reports())
    told = CliRunner().invoke(main, ["why", str(tmp_path), "--at", "10"], catch_exceptions=False)
    assert told.output.startswith(
        "as of micro-batch 4: what starts at 10 is not final: the query has promised 10."
    )
    assert "released by a row at 25 or later (the newest is 18, disorder 5)" in told.output
    write_reports(tmp_path, 3, [])
    assert "micro-batch 4" in CliRunner().invoke(main, ["why", str(tmp_path)]).output, (
        "an earlier one comes late"
    )
    early = CliRunner().invoke(
        main, ["why", str(tmp_path), "--at", "1970-01-01T00:00:00", "--json"]
    )
    assert json.loads(early.output)["settled"] is True


def test_why_says_when_there_is_nothing_to_read(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["why", str(tmp_path)])
    assert told.exit_code == 1 and "has no report" in told.output
    write_reports(tmp_path / "gone", 1, [])  # nothing depends on a report
    (tmp_path / "thalweg").mkdir()
    (tmp_path / "thalweg" / "reports.json").write_text("{}")
    assert "has no report" in CliRunner().invoke(main, ["why", str(tmp_path)]).output
    write_reports(tmp_path, 0, [])
    assert "no micro-batch has run yet" in CliRunner().invoke(main, ["why", str(tmp_path)]).output
    assert "is no time" in CliRunner().invoke(main, ["why", str(tmp_path), "--at", "soon"]).output
