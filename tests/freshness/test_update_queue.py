"""Update queues with keys and values: what comes out is the newest row of each key, whole."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.errors import InputError, PlanError, SchemaChangeError, UnknownColumnError
from thalweg.freshness.key_table import KeyTable, pack_keys
from thalweg.freshness.queue_status import Admission
from thalweg.freshness.row_store import RowStore
from thalweg.freshness.schedules import SCHEDULES
from thalweg.freshness.update_queue import Taken, UpdateQueue
from thalweg.progress.conflation import SCHEDULE_NAMES

QUOTES = pa.schema({"venue": pa.string(), "symbol": pa.int64(), "price": pa.float64()})

rows = st.lists(
    st.tuples(
        st.sampled_from(["A", "B", None]), st.integers(0, 3), st.none() | st.floats(0, 9, width=16)
    ),
    max_size=25,
)


def batch(values: list[tuple[str | None, int, float | None]]) -> pa.RecordBatch:
    columns = [[row[at] for row in values] for at in range(3)]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, QUOTES, strict=True)],
        schema=QUOTES,
    )


def test_every_schedule_that_a_query_may_name_is_there() -> None:
    assert set(SCHEDULES) == set(SCHEDULE_NAMES)


@pytest.mark.parametrize("schedule", SCHEDULES)
@given(batches=st.lists(st.tuples(rows, st.integers(0, 6)), max_size=8))
@settings(max_examples=40, deadline=None)
def test_what_leaves_is_the_newest_row_of_its_key(
    schedule: str, batches: list[tuple[list[tuple[str | None, int, float | None]], int]]
) -> None:
    queue = UpdateQueue(QUOTES, key=["venue", "symbol"], schedule=schedule)
    waiting: dict[tuple[str | None, int], tuple[str | None, int, float | None]] = {}
    came, left = 0, 0
    for now, (arriving, served) in enumerate(batches):
        queue.enqueue(batch(arriving), now=now)
        came += len(arriving)
        waiting.update({row[:2]: row for row in arriving})
        shown = queue.read(served, now=now)
        taken = queue.dequeue(served, now=now)
        assert shown == taken.rows
        assert len(taken.rows) == min(served, len(waiting))
        for row in taken.rows.to_pylist():
            assert waiting.pop((row["venue"], row["symbol"])) == tuple(row.values())
        left += len(taken.rows)
        queue.deliver(taken, now=now)
    status = queue.status(now=len(batches))
    assert (status.arrived, status.taken, status.waiting) == (came, left, len(waiting))
    assert status.arrived == status.taken + status.conflated + status.waiting
    assert status.bytes_used <= status.bytes_allowed
    assert status.staleness_average >= 0


@given(
    values=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=30),
    cuts=st.sets(st.integers(0, 30)),
)
@settings(max_examples=100, deadline=None)
def test_an_update_older_than_its_key_is_outdated(
    values: list[tuple[int, int]], cuts: set[int]
) -> None:
    schema = pa.schema({"key": pa.int64(), "made": pa.timestamp("us"), "row": pa.int64()})
    queue = UpdateQueue(schema, key="key", time="made")
    newest: dict[int, tuple[int, int]] = {}
    outdated = 0
    for number, (key, made) in enumerate(values):
        if made >= newest.get(key, (0, 0))[0]:
            newest[key] = (made, number)
        else:
            outdated += 1
    bounds = [0, *sorted(cut for cut in cuts if cut < len(values)), len(values)]
    counted = 0
    for begin, end in itertools.pairwise(bounds):
        part = values[begin:end]
        arrays = [
            pa.array([key for key, _ in part], pa.int64()),
            pa.array([made for _, made in part], pa.timestamp("us")),
            pa.array(range(begin, end), pa.int64()),
        ]
        counted += queue.enqueue(pa.record_batch(arrays, schema=schema), now=begin).outdated
    assert counted == outdated == queue.status(now=99).outdated
    out = queue.dequeue(99, now=99).rows.to_pydict()
    assert dict(zip(out["key"], out["row"], strict=True)) == {
        key: row for key, (_, row) in newest.items()
    }


def test_without_a_key_each_row_updates_the_one_before() -> None:
    queue = UpdateQueue(QUOTES)
    queue.enqueue(batch([("A", 1, 1.0), ("B", 2, 2.0)]), now=0)
    assert queue.dequeue(9, now=1).rows.to_pylist() == [{"venue": "B", "symbol": 2, "price": 2.0}]


def test_all_types_that_have_a_width_come_back() -> None:
    values = {
        "b": pa.array([True, None, False]),
        "i": pa.array([-1, None, 7], pa.int16()),
        "u": pa.array([2**63, None, 7], pa.uint64()),
        "f": pa.array([float("nan"), None, 0.5], pa.float32()),
        "d": pa.array([Decimal("1.25"), None, Decimal("-3.00")], pa.decimal128(9, 2)),
        "t": pa.array([dt.datetime(2026, 1, 2), None, dt.datetime(1969, 1, 1)], pa.timestamp("ns")),
        "s": pa.array(["", None, "Zürich"]),
        "l": pa.array(["x" * 20, "y", None], pa.large_string()),
        "y": pa.array([b"\0\1", None, b""], pa.binary()),
        "w": pa.array([b"abc", None, b"xyz"], pa.binary(3)),
    }
    table = pa.record_batch(values)
    store = RowStore(table.schema, 5, text_bytes=32)
    assert store.fits(table) is None
    store.write(np.array([4, 0, 2]), table)
    assert store.read(np.array([4, 0, 2])).cast(table.schema).equals(table) or str(
        store.read(np.array([4, 0, 2])).to_pylist()
    ) == str(table.to_pylist())
    sliced = table.slice(1)
    store.write(np.array([1, 3]), sliced)
    assert str(store.read(np.array([1, 3])).to_pylist()) == str(sliced.to_pylist())


def test_a_value_without_a_width_is_refused_when_the_queue_is_made() -> None:
    with pytest.raises(PlanError, match="'a': values of type list"):
        UpdateQueue(pa.schema({"a": pa.list_(pa.int64())}))


def test_mistakes() -> None:
    with pytest.raises(UnknownColumnError, match="symbl"):
        UpdateQueue(QUOTES, key="symbl")
    with pytest.raises(PlanError, match=r"no schedule 'in-plce'\. Did you mean 'in-place'"):
        UpdateQueue(QUOTES, schedule="in-plce")
    with pytest.raises(PlanError, match="is the least"):
        UpdateQueue(QUOTES, capacity=1_000)
    queue = UpdateQueue(QUOTES, key="symbol")
    with pytest.raises(SchemaChangeError, match="it was made for"):
        queue.enqueue(pa.record_batch({"symbol": [1]}), now=0)
    with pytest.raises(InputError, match=r"either now= or arrived="):
        queue.enqueue(batch([]))
    with pytest.raises(InputError, match="1 rows, but 2 arrival times"):
        queue.enqueue(batch([("A", 1, 1.0)]), arrived=np.array([1, 2]))


def test_a_full_queue_refuses_new_keys_and_takes_updates() -> None:
    queue = UpdateQueue(QUOTES, key="symbol", capacity=256 * 480, text_bytes=16)
    many = pa.record_batch(
        [pa.array(["x"] * 300), pa.array(range(300)), pa.array([0.0] * 300)], schema=QUOTES
    )
    assert queue.enqueue(many, now=0) == Admission(accepted=256, outdated=0, refused=44)
    assert queue.nbytes <= 256 * 480
    assert queue.enqueue(many, now=1) == Admission(accepted=256, outdated=0, refused=44)
    long = batch([("y" * 17, 1, 0.0), ("y" * 16, 2, 0.0)])
    assert queue.enqueue(long, now=2) == Admission(accepted=1, outdated=0, refused=1)
    assert queue.status(now=3).refused == 89


keys = st.lists(
    st.tuples(st.sampled_from(["a", "b:", "1:a", None, ""]), st.sampled_from([0.0, -0.0, 1.5])),
    max_size=20,
)


@given(st.lists(keys, max_size=5))
@settings(max_examples=30, deadline=None)
def test_cells_number_keys_in_the_order_of_their_first_row(
    batches: list[list[tuple[str | None, float]]],
) -> None:
    table = KeyTable([pa.field("s", pa.string()), pa.field("f", pa.float64())])
    known: dict[tuple[str | None, float], int] = {}
    for part in batches:
        found = table.cells(
            [
                pa.array([s for s, _ in part], pa.string()),
                pa.array([f for _, f in part], pa.float64()),
            ]
        )
        assert found.tolist() == [known.setdefault(key, len(known)) for key in part]


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 40), max_size=60)))
@settings(max_examples=30, deadline=None)
def test_cells_of_integers(batches: list[list[int]]) -> None:
    table = KeyTable([pa.field("k", pa.int64())])
    known: dict[int, int] = {}
    for part in batches:
        found = table.cells([pa.array(part, pa.int64())])
        assert found.tolist() == [known.setdefault(key, len(known)) for key in part]
    assert table.keys(np.arange(len(known))).to_pylist() == list(known)


def test_packed_keys_of_different_rows_differ() -> None:
    left = [pa.array(["a1", "a"]), pa.array(["b", "1b"])]
    assert len(pack_keys(left).unique()) == 2


@pytest.mark.parametrize("schedule", SCHEDULES)
@given(
    batches=st.lists(
        st.tuples(st.lists(st.integers(0, 700), max_size=120), st.integers(0, 120), st.booleans()),
        max_size=10,
    )
)
@settings(max_examples=15, deadline=None)
def test_idle_keys_make_room_for_new_ones(
    schedule: str, batches: list[tuple[list[int], int, bool]]
) -> None:
    """256 keys fit, 700 come: what waits is never forgotten, counts stay right."""
    schema = pa.schema({"key": pa.int64(), "row": pa.int64()})
    queue = UpdateQueue(schema, key="key", schedule=schedule, capacity=256 * 380, text_bytes=0)
    waiting: dict[int, int] = {}
    came = row = refused = 0
    kept_back: list[Taken] = []
    for now, (keys, served, delivers) in enumerate(batches):
        numbers = list(range(row, row + len(keys)))
        admitted = queue.enqueue(
            pa.record_batch(
                [pa.array(keys, pa.int64()), pa.array(numbers, pa.int64())], schema=schema
            ),
            now=now,
        )
        came, row, refused = came + len(keys), row + len(keys), refused + admitted.refused
        present = {r["key"]: r["row"] for r in queue.read(1_000, now=now).to_pylist()}
        arrived = zip(keys, numbers, strict=True)
        waiting |= {key: number for key, number in arrived if key in present}
        assert present == waiting
        taken = queue.dequeue(served, now=now)
        for r in taken.rows.to_pylist():
            assert waiting.pop(r["key"]) == r["row"]
        kept_back.append(taken)
        if delivers:
            for each in kept_back:
                queue.deliver(each, now=now)
            kept_back = []
    status = queue.status(now=len(batches))
    assert status.keys <= 256
    assert status.arrived + status.refused == came
    assert status.refused == refused
    assert status.arrived == status.taken + status.conflated + status.waiting
    assert status.staleness_average >= 0
    assert queue.nbytes <= 256 * 380


def test_the_keys_that_were_silent_longest_are_forgotten() -> None:
    schema = pa.schema({"key": pa.int64()})
    queue = UpdateQueue(schema, key="key", capacity=256 * 380, text_bytes=0)

    def offer(keys: range, now: int) -> Admission:
        return queue.enqueue(pa.record_batch([pa.array(keys, pa.int64())], schema=schema), now=now)

    offer(range(256), 0)
    assert offer(range(256, 300), 1).refused == 44, "nobody is idle"
    first = queue.dequeue(100, now=2)
    assert offer(range(256, 300), 3).refused == 44, "what was taken is not yet delivered"
    queue.deliver(first, now=4)
    offer(range(50), 5)
    assert offer(range(256, 300), 6) == Admission(accepted=44, outdated=0, refused=0)
    status = queue.status(now=7)
    assert (status.forgotten, status.keys) == (50, 250)
    waiting = {row["key"] for row in queue.read(999, now=7).to_pylist()}
    assert waiting == {*range(50), *range(100, 300)}
