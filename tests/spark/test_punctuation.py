"""Promises that come in the data: rows that are no events but say how far the stream has come."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from thalweg.errors import PlanError, TypeMismatchError, UnknownColumnError
from thalweg.expr import parse
from thalweg.model.time import MIN_TIME
from thalweg.shards.sources.event_columns import EventColumns
from thalweg.spark.sources.streams import from_files

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
TIMES = EventColumns("ts", punctuation=parse("k = 'promise'"))


def rows(*given: tuple[int, str | None, int]) -> pa.Table:
    ts, k, v = zip(*given, strict=True)
    return pa.table({"ts": list(ts), "k": list(k), "v": list(v)})


def test_a_row_of_punctuation_is_a_promise_and_no_event() -> None:
    batch, header = TIMES.chunk(rows((5, "a", 1), (9, "promise", 0), (7, "b", 2)), SCHEMA, "here")
    assert batch.start.tolist() == [5, 7]
    assert header.progress.cti == 9
    assert (header.newest, header.rows) == (7, 2)


def test_the_latest_promise_counts_and_null_is_no_promise() -> None:
    batch, header = TIMES.chunk(
        rows((4, "promise", 0), (6, None, 1), (3, "promise", 0)), SCHEMA, "here"
    )
    assert (len(batch), header.progress.cti) == (1, 4)


def test_rows_without_punctuation_promise_nothing() -> None:
    _, header = TIMES.chunk(rows((4, "a", 0)), SCHEMA, "here")
    assert header.progress.cti == MIN_TIME


def test_punctuation_must_be_a_condition(tmp_path: object) -> None:
    columns = pa.schema([("ts", pa.int64()), *SCHEMA])
    with pytest.raises(TypeMismatchError, match="condition"):
        from_files(str(tmp_path), time="ts", punctuation="v + 1", columns=columns)


def test_a_row_of_punctuation_may_speak_of_its_own_group_alone() -> None:
    per_group = EventColumns("ts", punctuation=parse("v = 0"), per=("k",))
    batch, header = per_group.chunk(
        rows((5, "a", 1), (9, "a", 0), (4, "b", 0), (7, "a", 0), (3, None, 0)), SCHEMA, "here"
    )
    assert len(batch) == 1
    progress = header.progress
    assert progress.cti == MIN_TIME
    assert progress.scope_columns == ("k",)
    assert progress.scoped == {("a",): 9, ("b",): 4, (None,): 3}


@pytest.mark.parametrize("per", ["ts", "x"])
def test_a_group_is_told_by_columns_of_the_payload(per: str, tmp_path: Path) -> None:
    columns = pa.schema([("ts", pa.int64()), *SCHEMA])
    with pytest.raises(UnknownColumnError, match=per):
        from_files(str(tmp_path), time="ts", columns=columns, punctuation="v = 0", per=per)
    with pytest.raises(PlanError, match="give punctuation= too"):
        from_files(str(tmp_path), time="ts", columns=columns, per="k")
