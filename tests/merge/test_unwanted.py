"""Feedback between processes: what a merge in front has settled, the replicas behind it leave
out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg import spark
from thalweg.io.listing import FilePlace
from thalweg.io.statistics import newest_time
from thalweg.io.unwanted import Unwanted
from thalweg.model import INFINITY, MIN_TIME, Batch
from thalweg.plan.nodes import Source, find
from thalweg.plan.usefulness import reach_of_sources
from thalweg.shards.exchange.header import Header
from thalweg.shards.sources.event_files import FileChunks, skips_unwanted
from thalweg.spark.sources.file_feed import FileReader, Files

COLUMNS = pa.schema([("k", pa.string())])
Told = list[tuple[list[int], Header]]


class Sent:
    """An ingest that remembers what a reader hands it."""

    def __init__(self) -> None:
        self.told: Told = []

    def rows(self, batch: Batch, header: Header, seq: int) -> Any:
        self.told.append((batch.start.tolist(), header))
        return iter(())


def files(folder: Path, *times: list[int]) -> tw.Stream:
    (folder / "in").mkdir()
    for number, ts in enumerate(times):
        table = pa.table({"ts": pa.array(ts, pa.int64()), "k": ["x"] * len(ts)})
        pq.write_table(table, folder / "in" / f"{number}.parquet")
    return spark.from_files(str(folder / "in"), time="ts", disorder=5, late="drop", name="s")


def say(folder: Path, cti: int) -> Path:
    path = folder / "status.json"
    path.write_text(json.dumps({"cti": cti}), encoding="utf-8")
    return path


def chunks_of(feed: Any, sent: Any, folder: Path) -> FileChunks:
    return FileChunks(feed, sent, COLUMNS, "s", str(folder / "s.files"))


def read(query: tw.Stream, folder: Path, start: dict[str, int], end: dict[str, int]) -> Told:
    """What the reader of the only source hands on between two offsets."""
    [source] = find(query.node, Source)
    sent = Sent()
    reader = FileReader(chunks_of(source.feed, sent, folder))
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    for part in reader.partitions(start, end):
        list(reader.read(part))
    return sorted(sent.told, key=lambda told: told[1].begin or 0)


def test_files_are_left_out_by_their_statistics_and_rows_by_their_ends(tmp_path: Path) -> None:
    query = skips_unwanted(files(tmp_path, [1, 9, 4], [8, 19, 12], [22, 25]), say(tmp_path, 15))
    [source] = find(query.node, Source)
    job = chunks_of(source.feed, Sent(), tmp_path)
    reader = FileReader(job)
    first = reader.initialOffset()
    offset = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert offset == {"n": 3, "ended": 0, "unwanted": 15}
    told = read(query, tmp_path, first, offset)
    assert [starts for starts, _ in told] == [[], [19], [22, 25]]
    assert [(h.rows, h.unwanted, h.newest) for _, h in told] == [(3, 3, 9), (3, 2, 19), (2, 0, 25)]
    # A micro-batch that runs again leaves out the same, whatever was promised since.
    say(tmp_path, 100)
    again = read(query, tmp_path, first, offset)
    assert [(s, h.unwanted) for s, h in again] == [(s, h.unwanted) for s, h in told]
    # Nothing new was read, so nothing more is left out; a promise never goes back.
    assert reader.latestOffset(offset, reader.getDefaultReadLimit()) == offset
    (tmp_path / "in" / "3.parquet").write_bytes((tmp_path / "in" / "2.parquet").read_bytes())
    say(tmp_path, 10)
    assert reader.latestOffset(offset, reader.getDefaultReadLimit())["unwanted"] == 15


def test_files_that_nobody_wants_do_not_count_towards_a_micro_batch(tmp_path: Path) -> None:
    times = [[10 * number, 10 * number + 9] for number in range(8)]
    query = files(tmp_path, *times)
    [source] = find(query.node, Source)
    feed = replace(source.feed, files_per_batch=2, unwanted=Unwanted(str(say(tmp_path, 41)), 0))
    job = chunks_of(feed, Sent(), tmp_path)
    reader = FileReader(job)
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(reader.initialOffset(), limit)
    assert first == {"n": 6, "ended": 0, "unwanted": 41}  # four that are left out, and two
    second = reader.latestOffset(first, limit)
    assert second["n"] == 8
    say(tmp_path, 500)
    assert reader.latestOffset(reader.initialOffset(), limit)["n"] == 8


def test_the_reach_of_a_query_is_taken_off(tmp_path: Path) -> None:
    events = files(tmp_path, [1])
    path = say(tmp_path, 100)

    def reach(query: tw.Stream) -> int | None:
        [source] = find(skips_unwanted(query, path).node, Source)
        assert isinstance(source.feed, Files)
        return None if source.feed.unwanted is None else source.feed.unwanted.reach

    counts = events.group_by("k").hopping(10, 5).aggregate(n=tw.count())
    assert (reach(events), reach(events.where("k = 'x'")), reach(counts)) == (0, 0, 15)
    assert reach(counts.tumbling(20).aggregate(m=tw.max_("n"))) == 15 + 40
    assert reach(events.group_by("k").session(5).aggregate(n=tw.count())) is None
    assert reach(counts.union(events.select(k="k", n="1"))) == 15


@pytest.mark.parametrize("option", [{"end": "k"}, {"partition": "k"}, {"punctuation": "k = 'x'"}])
def test_sources_whose_promises_follow_from_single_rows_read_everything(
    tmp_path: Path, option: dict[str, str]
) -> None:
    if "end" in option:
        (tmp_path / "in").mkdir()
        rows = pa.table({"ts": [1], "te": [9], "k": ["x"]})
        pq.write_table(rows, tmp_path / "in" / "0.parquet")
        query = spark.from_files(str(tmp_path / "in"), time="ts", end="te", name="s")
    else:
        files(tmp_path, [1])
        settings: dict[str, Any] = {"disorder": 5, **option}
        if "punctuation" in option:
            del settings["disorder"]
        query = spark.from_files(str(tmp_path / "in"), time="ts", late="drop", name="s", **settings)
    assert skips_unwanted(query, say(tmp_path, 9)) is query


def test_what_cannot_be_read_says_nothing_new(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    unwanted = Unwanted(str(path), 3)
    assert unwanted.before(7) == 7
    for text in ("", "{", "[]", "{}", json.dumps({"cti": MIN_TIME}), json.dumps({"cti": INFINITY})):
        path.write_text(text, encoding="utf-8")
        assert unwanted.before(7) == 7
    say(tmp_path, 20)
    assert (unwanted.before(7), unwanted.before(30)) == (17, 30)


def test_statistics_tell_the_newest_time_or_nothing(tmp_path: Path) -> None:
    place = FilePlace(str(tmp_path))
    stamps = pa.array([1_000_000, 3_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": stamps}), tmp_path / "stamps.parquet")
    pq.write_table(pa.table({"ts": [5, 2, 9]}), tmp_path / "groups.parquet", row_group_size=2)
    pq.write_table(pa.table({"ts": [5, None]}), tmp_path / "nulls.parquet")
    pq.write_table(pa.table({"ts": [5]}), tmp_path / "silent.parquet", write_statistics=False)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    assert newest_time(place, "stamps.parquet", "ts") == (3_000_000, 2)
    assert newest_time(place, "groups.parquet", "ts") == (9, 3)
    for name in ("nulls", "silent", "broken"):
        assert newest_time(place, f"{name}.parquet", "ts") is None
    assert newest_time(place, "groups.parquet", "other") is None


def test_answers_that_are_wanted_are_the_same(tmp_path: Path) -> None:
    """The law, through a reader: rows that end at t or later, for every t."""
    query = files(tmp_path, [1, 9, 4], [8, 19, 12], [22, 25, 18]).group_by("k").hopping(10, 5)
    counts = query.aggregate(n=tw.count())
    every = {"n": 3, "ended": 0}
    for time in range(0, 40, 3):
        tables = []
        for told in (counts, skips_unwanted(counts, say(tmp_path, time))):
            [source] = find(told.node, Source)
            feed = source.feed
            bound = MIN_TIME if feed.unwanted is None else feed.unwanted.before()
            end = {**every, "unwanted": bound}
            rows = [
                t for starts, _ in read(told, tmp_path, {"n": 0, "ended": 0}, end) for t in starts
            ]
            plain = tw.source("s", COLUMNS, insert_only=True)
            same = plain.group_by("k").hopping(10, 5).aggregate(n=tw.count())
            answers = tw.table(same, {"s": [tw.point({"k": "x"}, ts) for ts in rows]})
            tables.append([row for row in answers if row[1] >= time])
        assert tables[0] == tables[1]


def test_a_row_of_several_ways_reaches_as_far_as_the_furthest() -> None:
    events = tw.source("s", {"k": "string"})
    counts = [events.tumbling(size).aggregate(n=tw.count()) for size in (5, 50)]
    [(_, reach)] = reach_of_sources(counts[0].union(counts[1]).node).items()
    assert reach == 100
    assert replace(Unwanted("", 1), reach=reach).reach == 100
