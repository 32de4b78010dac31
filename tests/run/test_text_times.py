"""Times as people write them: ISO 8601 text in frames and files, with and without a zone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg.errors import InputError, PlanError, TypeMismatchError

ZONED = ["2026-03-01T10:05:00+01:00", "2026-03-01 09:50:00Z"]
LOCAL = ["2026-03-01T10:05:00", "2026-03-01 10:50:00"]
NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


def starts(stream: tw.Stream) -> list[datetime]:
    return [start for start, _, _ in tw.table(stream.tumbling("1 h").aggregate(n=tw.count()))]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_text_in_a_frame(make: type) -> None:
    assert starts(tw.from_frame(make({"ts": ZONED, "v": [1, 2]}), time="ts")) == [NINE]
    local = starts(tw.from_frame(make({"ts": LOCAL, "v": [1, 2]}), time="ts"))
    assert local == [datetime(2026, 3, 1, 10)]


def test_text_in_dictionaries_and_ends() -> None:
    rows = [{"from": ZONED[0], "to": "2026-03-01T11:00:00Z", "v": 1}]
    lasting = tw.from_frame(rows, time="from", end="to")
    assert starts(lasting) == [NINE, datetime(2026, 3, 1, 10, tzinfo=UTC)]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "csv.gz"])
def test_files_by_their_name(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"orders.{suffix}"
    frame = pd.DataFrame({"ts": ZONED, "v": [1, 2]})
    if suffix == "parquet":
        table = pa.table(
            {"ts": pd.to_datetime(pd.Series(ZONED), utc=True, format="ISO8601"), "v": [1, 2]}
        )
        pq.write_table(table, file)
    elif suffix == "jsonl":
        frame.to_json(file, orient="records", lines=True)
    else:
        frame.to_csv(file, index=False)
    stream = tw.from_frame(file, time="ts")
    assert starts(stream) == [NINE]
    assert starts(tw.from_frame(str(tmp_path), time="ts")) == [NINE], "a folder"
    assert "orders" in stream.explain()


def test_json_without_a_zone_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"ts": "2026-03-01T10:05:00", "v": 1}\n')
    assert starts(tw.from_frame(tmp_path / "a.jsonl", time="ts")) == [datetime(2026, 3, 1, 10)]


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(
        TypeMismatchError, match=r"row 0: the time 'ts' is 'noon', which is no ISO 8601"
    ):
        tw.from_frame([{"ts": "noon", "v": 1}], time="ts")
    with pytest.raises(PlanError, match="nothing but their times"):
        tw.from_frame([{"ts": 1}], time="ts")
    with pytest.raises(InputError, match="there is no file or folder"):
        tw.from_frame("nowhere.csv", time="ts")


def test_why_names_no_inner_constant_when_nothing_is_promised() -> None:
    stream = tw.from_frame([{"ts": ZONED[0], "v": 1}], time="ts")
    engine = tw.Engine(stream.tumbling("1 h").aggregate(n=tw.count()))
    engine.push("frame", [{"ts": ZONED[0], "v": 1}])
    assert str(engine.why()).splitlines() == [
        "nothing is final yet: the query has promised nothing.",
        "  window_aggregate-1 needs a promise of its input; there is none",
        "  source frame has promised nothing; it must make a promise",
        "    released by a CTI in the data",
        "    released by the end of the source",
    ]
    waiting = tw.Engine(
        tw.source("s", {"v": "int64"}, disorder=5).tumbling(10).aggregate(n=tw.count())
    )
    assert "released by its first rows" in str(waiting.why())
    assert "-46116" not in str(waiting.why())
