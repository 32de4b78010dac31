"""The reader of a receiver's cuts, call by call as Spark makes them, against a real receiver."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from thalweg import spark
from thalweg.errors import InputError, StateError
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.freshness.receiver_process import stop_receiver
from thalweg.plan.nodes import Source
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.exchange.buckets import bucket_ids
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import Ingest
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import targets_of
from thalweg.shards.sources.source_feed import without_feeds
from thalweg.spark.sources.feed import feeds_of
from thalweg.spark.sources.receiver_feed import Received, _CutJob, _CutReader, bind_queues
from thalweg.stream import Stream

LIMIT = ReadAllAvailable()
STARTED: list[_CutReader] = []


@pytest.fixture
def query(tmp_path: Path) -> Iterator[Stream]:
    rows = spark.from_receiver(
        str(tmp_path / "queue"),
        {"symbol": "string", "price": "int64", "at": "int64"},
        time="at",
        disorder=2,
        name="quotes",
    )
    yield rows.update_key("symbol", schedule="in-place", freshness="2 s")
    while STARTED:
        STARTED.pop().stop()
    stop_receiver(tmp_path / "queue")


def reader_of(query: Stream, queue: str) -> _CutReader:
    root = query.node
    assert isinstance(root, Source)
    feed = bind_queues(root, feeds_of(root))["quotes"]
    assert isinstance(feed, Received)
    plan = fragments_of(without_feeds(root))
    ingest = Ingest(targets_of(plan, bucket_ids(2), source="quotes"))
    job = _CutJob(feed, ingest, root.schema, "quotes", queue)
    reader: _CutReader = pickle.loads(pickle.dumps(_CutReader(job)))
    STARTED.append(reader)
    return reader


def send(query: Stream, *rows: tuple[str, int, int]) -> str:
    """Send rows to the receiver; the identity of its queue."""
    lines = "\n".join(f'{{"symbol": "{s}", "price": {p}, "at": {t}}}' for s, p, t in rows)
    with spark.receiver_of(query) as receiver:
        receiver.offer_json(lines)
        queue: str = receiver.status()["queue"]
    return queue


def read(reader: _CutReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int]]:
    """What a micro-batch between two offsets reads: symbol and price."""
    found = []
    for part in reader.partitions(start, end):
        for chunk in reader.read(part):
            for row in chunk.to_pylist():
                if row["blob"] is not None:
                    payload = batch_of_blob(row["blob"]).payload.to_pylist()
                    found += [(each["symbol"], each["price"]) for each in payload]
    return sorted(found)


def test_a_cut_is_the_same_however_often_it_is_read(query: Stream, tmp_path: Path) -> None:
    queue = send(query, ("IBM", 24, 1), ("GM", 40, 2), ("IBM", 25, 3))
    reader = reader_of(query, queue)
    start = reader.initialOffset()
    first = reader.latestOffset(start, LIMIT)
    assert reader.latestOffset(start, LIMIT) == first, "one that was never logged comes again"
    send(query, ("IBM", 26, 4))
    again = reader_of(query, queue)  # Spark was started again
    assert again.latestOffset(start, LIMIT) == first
    assert read(again, start, first) == read(reader, start, first) == [("GM", 40), ("IBM", 25)]
    second = reader.latestOffset(first, LIMIT)
    assert read(reader, first, second) == [("IBM", 26)]
    with ReceiverClient.of(tmp_path / "queue") as receiver:
        (left,) = receiver.open_cuts()  # who asks what follows the first has committed it
        assert left.number == 2
        assert reader.latestOffset(second, LIMIT) == second, "nothing waits"
        assert receiver.open_cuts() == []
    with pytest.raises(StateError, match="cut 1 is not in queue any more"):
        read(reader, start, first)
    with pytest.raises(InputError, match="restored apart"):
        reader.latestOffset(start, LIMIT)


def test_a_cut_carries_the_promise_of_its_queue(query: Stream) -> None:
    """The newest is 9 and rows may be 2 late: 7, as nothing earlier waits."""
    queue = send(query, ("IBM", 24, 1), ("GM", 40, 9))
    reader = reader_of(query, queue)
    start = reader.initialOffset()
    (part,) = reader.partitions(start, reader.latestOffset(start, LIMIT))
    headers = [
        Header.from_json(row["header"]) for chunk in reader.read(part) for row in chunk.to_pylist()
    ]
    assert {header.progress.cti for header in headers} == {7}
    assert {(header.begin, header.end, header.rows) for header in headers} == {(0, 1, 2)}


def test_without_its_receiver_a_reader_has_nothing_new(query: Stream, tmp_path: Path) -> None:
    """What was cut is read all the same; a receiver that is back is found."""
    queue = send(query, ("IBM", 24, 1))
    reader = reader_of(query, queue)
    start = reader.initialOffset()
    first = reader.latestOffset(start, LIMIT)
    assert stop_receiver(tmp_path / "queue")
    assert reader.latestOffset(first, LIMIT) == first
    assert read(reader, start, first) == [("IBM", 24)]
    reader.commit(first)
    assert send(query, ("IBM", 25, 2)) == queue
    second = reader.latestOffset(first, LIMIT)
    assert read(reader, first, second) == [("IBM", 25)]
    with ReceiverClient.of(tmp_path / "queue") as receiver:
        assert [cut.number for cut in receiver.open_cuts()] == [2]
        reader.commit(second)
        assert receiver.open_cuts() == []


def test_available_now_ends_with_what_waited_when_it_began(query: Stream) -> None:
    queue = send(query, ("IBM", 24, 1), ("GM", 40, 2))
    reader = reader_of(query, queue)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset(start, LIMIT)
    send(query, ("IBM", 25, 3))
    assert reader.latestOffset(first, LIMIT) == first


def test_an_offset_of_another_queue_is_refused(query: Stream) -> None:
    reader = reader_of(query, send(query, ("IBM", 24, 1)))
    start = reader.initialOffset()
    with pytest.raises(StateError, match="made with another queue"):
        reader.latestOffset({**start, "queue": "another"}, LIMIT)


def test_other_settings_than_the_folder_has_are_refused(query: Stream) -> None:
    send(query, ("IBM", 24, 1))
    node = query.node
    assert isinstance(node, Source) and node.conflation is not None
    other = Stream(replace(node, conflation=replace(node.conflation, schedule="fifo")))
    with pytest.raises(StateError, match="schedule is 'fifo' here and 'in-place' there"):
        spark.receiver_of(other)
