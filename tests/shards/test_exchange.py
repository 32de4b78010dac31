"""What travels through an exchange comes out as it went in."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import StateError
from thalweg.expr import col
from thalweg.io.row_bytes import read_rows, write_rows
from thalweg.model import (
    INFINITY,
    NO_PROGRESS,
    Batch,
    Element,
    Progress,
    adjust,
    batches_of,
    cti,
    elements_of,
    insert,
)
from thalweg.model.area_promises import AreaPromises
from thalweg.model.punctuation import punctuation, within
from thalweg.model.time import MIN_TIME
from thalweg.operators.merging.named_inputs import InputChange
from thalweg.shards.exchange.blobs import batch_of_blob, blob_of_batch
from thalweg.shards.exchange.chunk import EXCHANGE_COLUMNS, EXCHANGE_SCHEMA, ExchangeRow
from thalweg.shards.exchange.header import Header, Message
from thalweg.shards.exchange.ingest import divide, divided_rows, exchange_rows
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import targets_of

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


def batch(*elements: Element, schema: pa.Schema = SCHEMA) -> Batch:
    return Batch.concat(list(batches_of(elements, schema)), schema)


def told(batch: Batch) -> list[Element]:
    return list(elements_of([batch]))


# ------------------------------------------------------------------------------------------------
# blobs


def test_inserts_travel_without_kind_and_new_end() -> None:
    sent = batch(insert({"k": "a", "v": 1}, 1, 5), insert({"k": None, "v": None}, 2))
    blob = blob_of_batch(sent)
    assert read_rows(blob).schema.names == ["_start", "_end", "k", "v"]
    assert told(batch_of_blob(blob)) == told(sent)


def test_adjusts_travel_too() -> None:
    sent = batch(
        insert({"k": "a", "v": 1}, 1),
        adjust({"k": "a", "v": 1}, 1, INFINITY, 4),
        adjust({"k": "a", "v": 1}, 1, 4, 1),
    )
    assert told(batch_of_blob(blob_of_batch(sent))) == told(sent)


def test_an_empty_batch_keeps_its_columns() -> None:
    received = batch_of_blob(blob_of_batch(Batch.empty(SCHEMA)))
    assert len(received) == 0 and received.schema == SCHEMA


def test_progress_travels_in_the_header_not_in_the_blob() -> None:
    sent = batch(insert({"k": "a", "v": 1}, 1, 5), cti(4))
    assert batch_of_blob(blob_of_batch(sent)).progress == NO_PROGRESS


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.float64(), -0.0),
        (pa.bool_(), True),
        (pa.binary(), b"\xff\x00"),
        (pa.timestamp("us", "UTC"), datetime(2020, 2, 3, tzinfo=UTC)),
        (pa.list_(pa.int64()), [1, None]),
        (pa.struct([("x", pa.int64())]), {"x": 3}),
        (pa.decimal128(9, 2), None),
        (pa.date32(), date(2020, 2, 3)),
    ],
    ids=str,
)
def test_every_type_of_payload_travels(kind: pa.DataType, value: Any) -> None:
    schema = pa.schema([("x", kind)])
    received = batch_of_blob(blob_of_batch(batch(insert({"x": value}, 3, 4), schema=schema)))
    assert received.schema == schema
    assert received.payload.to_pylist() == [{"x": value}]


def test_bytes_that_are_no_arrow_stream_are_refused() -> None:
    for blob in (b"", b"nonsense", write_rows(pa.RecordBatch.from_pydict({"x": [1, 2]}))[:-40]):
        with pytest.raises(StateError, match="no Arrow stream"):
            read_rows(blob)


# ------------------------------------------------------------------------------------------------
# headers

PROMISES = [
    NO_PROGRESS,
    Progress(0),
    Progress(INFINITY),
    Progress(-7),
    Progress(3, ("k",), {("a",): 5, (None,): 9}),
    Progress(MIN_TIME, ("k", "v"), {("a", 1): 5}),
    Progress(3, ("d", "k"), {(date(2020, 1, 2), "a"): 5, (None, "b"): 6}),
    Progress(3, ("t", "b"), {(datetime(2020, 1, 2, tzinfo=UTC), b"\xff"): 5}),
]


@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_a_promise_comes_through_as_text(promise: Progress) -> None:
    received = Header.from_json(Header(progress=promise).to_json()).progress
    assert (received.cti, dict(received.scoped)) == (promise.cti, dict(promise.scoped))
    assert received.scope_columns == promise.scope_columns


def test_nan_is_found_again_as_the_same_group() -> None:
    received = Header.from_json(
        Header(progress=Progress(3, ("f",), {(math.nan,): 8})).to_json()
    ).progress
    assert received.of((math.nan,)) == 8


def test_a_header_says_only_what_it_knows() -> None:
    assert json.loads(Header(newest=0, begin=0, end=1).to_json()) == {
        "newest": 0,
        "begin": 0,
        "end": 1,
    }
    header = Header(
        partition="3", newest=7, progress=Progress(5), begin=10, end=20, rows=4, asked=False
    )
    assert Header.from_json(header.to_json()) == header


PATTERN = punctuation(ts=within(5, 9))


def test_changes_of_inputs_and_patterns_come_through_as_text() -> None:
    header = Header(Message.SOURCE, change=InputChange.JOINS, since=4, patterns=(PATTERN,))
    received = Header.from_json(header.to_json())
    assert received == header
    assert received.change is InputChange.JOINS


def test_what_does_not_travel_is_left_out_of_a_header() -> None:
    areas = AreaPromises.over({"k": "a"}, {"v": (0, 9)}, 7)
    received = Header.from_json(Header(progress=Progress(3, ("k", "v"), areas=areas)).to_json())
    assert received.progress == Progress(3, ("k", "v"))


def test_rows_for_buckets_have_the_promise_of_their_batch_and_the_rest_of_the_header() -> None:
    query = tw.source("s", {"k": "string", "v": "int64"}).group_by("k").session(5)
    plan = fragments_of(query.aggregate(n=tw.count()).node)
    (target,) = targets_of(plan, [4, 7], source="s")
    header = Header(partition="3", newest=7, progress=Progress(5), begin=10, end=20, rows=4)
    rows = list(divided_rows(target, "s", batch(insert({"k": "a", "v": 1}, 6, 7), cti(6)), header))
    assert [row.bucket for row in rows] == [4, 7]
    for row in rows:
        assert Header.from_json(row.header) == replace(header, progress=Progress(6))


# ------------------------------------------------------------------------------------------------
# dividing


def test_rows_are_divided_so_that_equal_keys_meet_and_nothing_is_lost() -> None:
    sent = batch(*(insert({"k": f"{n % 5}", "v": n}, n, n + 1) for n in range(50)), cti(20))
    parts = dict(divide(sent, (col("k"),), [4, 7, 9]))
    assert list(parts) == [4, 7, 9]
    homes = {row["k"]: bucket for bucket, part in parts.items() for row in part.payload.to_pylist()}
    assert all(
        homes[row["k"]] == bucket
        for bucket, part in parts.items()
        for row in part.payload.to_pylist()
    )
    assert sorted(row["v"] for part in parts.values() for row in part.payload.to_pylist()) == list(
        range(50)
    )


def test_the_order_of_rows_stays_within_a_bucket() -> None:
    sent = batch(*(insert({"k": f"{n % 5}", "v": n}, n, n + 1) for n in range(50)))
    for _, part in divide(sent, (col("k"),), [0, 1]):
        values = [row["v"] for row in part.payload.to_pylist()]
        assert values == sorted(values)


def test_an_adjust_follows_its_insert() -> None:
    rows = [{"k": f"{n}", "v": n} for n in range(8)]
    sent = batch(*(insert(row, 1, 9) for row in rows), *(adjust(row, 1, 9, 5) for row in rows[::2]))
    for _, part in divide(sent, (col("k"), col("v")), [0, 1, 2]):
        kinds: dict[str, list[bool]] = {}
        adjusts = [False] * len(part) if part.is_adjust is None else part.is_adjust.tolist()
        for row, is_adjust in zip(part.payload.to_pylist(), adjusts, strict=True):
            kinds.setdefault(row["k"], []).append(is_adjust)
        assert all(
            found == ([False, True] if int(k) % 2 == 0 else [False]) for k, found in kinds.items()
        )
        assert part.insert_only == (not any(adjusts))


def test_without_keys_only_the_first_bucket_gets_anything() -> None:
    sent = batch(insert({"k": "a", "v": 1}, 1, 2))
    assert [(bucket, len(part)) for bucket, part in divide(sent, (), [3, 5])] == [(3, 1)]


def test_an_empty_batch_reaches_every_bucket() -> None:
    nothing = Batch.empty(SCHEMA, Progress(9))
    assert [
        (bucket, part.progress.cti) for bucket, part in divide(nothing, (col("k"),), [3, 5])
    ] == [(3, 9), (5, 9)]


def test_rows_of_the_exchange_have_the_schema_that_spark_is_told() -> None:
    rows = exchange_rows(
        iter([ExchangeRow(1, 0, "s", 5, "{}", None), ExchangeRow(2, 0, "s", 5, "{}", b"x")])
    )
    assert rows.schema == EXCHANGE_SCHEMA and rows.num_rows == 2
    assert exchange_rows(iter([])).num_rows == 0
    kinds = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    assert (
        pa.schema(
            [
                (name, kinds[kind])
                for name, kind in (c.split() for c in EXCHANGE_COLUMNS.split(", "))
            ]
        )
        == EXCHANGE_SCHEMA
    )
