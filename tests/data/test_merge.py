"""Recorded replicas: four connections to one feed, merged. Whatever is cut, no message is lost or
repeated."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from thalweg.merging import Merger
from thalweg.model import Batch, table_of_batches
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY
from thalweg.plan.merging import MergePolicy

pytestmark = pytest.mark.shared_data

DISTINCT = {"HITBTC": 722, "BEQUANT": 1_318}
KEEP = MergePolicy(missing="keep")


def replicas(recorded: Path, venue: str) -> list[pa.RecordBatch]:
    """The messages of each connection in the order of arrival; snapshots are no messages."""
    table = pq.read_table(recorded / "exchange_replicas" / "feeds.parquet")
    chosen = pc.and_(
        pc.equal(table["venue"], venue), pc.invert(pc.starts_with(table["kind"], "snapshot"))
    )
    table = table.filter(chosen)
    names = ["event_us", "kind", "symbol", "bid", "ask", "payload_id"]
    parts = []
    for number in (1, 2, 3, 4):
        one = table.filter(pc.equal(table["replica"], number)).sort_by("seq").select(names)
        parts.append(one.combine_chunks().to_batches()[0])
    return parts


def batches(rows: pa.RecordBatch, random: Random) -> list[Batch]:
    """Cut at random, each batch with the strongest promise that the recording allows."""
    start = rows.column(0).to_numpy()
    payload = rows.drop_columns(["event_us"])
    later = np.minimum.accumulate(start[::-1])[::-1]
    cuts = sorted({0, len(start), *(random.randint(1, len(start)) for _ in range(12))})
    made = []
    for begin, end in pairwise(cuts):
        promise = int(later[end]) if end < len(start) else INFINITY
        part = payload.slice(begin, end - begin)
        made.append(Batch(part, start[begin:end], start[begin:end] + 1, progress=Progress(promise)))
    return made


@pytest.mark.parametrize("venue", ["HITBTC", "BEQUANT"])
@pytest.mark.parametrize("count", [15, pytest.param(100, marks=pytest.mark.slow)])
def test_every_message_once_for_all_interleavings(recorded: Path, venue: str, count: int) -> None:
    forms = replicas(recorded, venue)
    for seed in range(count):
        random = Random(seed)
        waiting = {f"r{at}": batches(rows, random) for at, rows in enumerate(forms)}
        schema = waiting["r0"][0].schema
        merger, out = Merger(schema, policy=KEEP), []
        for name in waiting:
            merger.attach(name, insert_only=True)
        while any(waiting.values()):
            name = random.choice([name for name, rest in waiting.items() if rest])
            out += merger.push(name, waiting[name].pop(0))
        ids = table_of_batches(out, schema)["payload_id"].to_pylist()
        assert len(ids) == len(set(ids)) == DISTINCT[venue]


@pytest.mark.parametrize("venue", ["HITBTC", "BEQUANT"])
@pytest.mark.parametrize("count", [15, pytest.param(100, marks=pytest.mark.slow)])
def test_after_three_of_four_are_cut_there_is_what_was_delivered(
    recorded: Path, venue: str, count: int
) -> None:
    forms = replicas(recorded, venue)
    for seed in range(count):
        random = Random(seed)
        waiting = {f"r{at}": batches(rows, random) for at, rows in enumerate(forms)}
        schema = waiting["r0"][0].schema
        merger, out = Merger(schema, policy=KEEP), []
        for name in waiting:
            merger.attach(name, insert_only=True)
        survivor = random.choice(list(waiting))
        left = {name: random.randint(0, 11) for name in waiting if name != survivor}
        delivered: set[str] = set()
        while waiting:
            name = random.choice(list(waiting))
            if left.get(name) == 0 or not waiting[name]:
                del waiting[name]
                out += merger.detach(name) if name != survivor else []
                continue
            left[name] = left.get(name, 99) - 1
            batch = waiting[name].pop(0)
            delivered |= set(batch.payload.column("payload_id").to_pylist())
            out += merger.push(name, batch)
        ids = table_of_batches(out, schema)["payload_id"].to_pylist()
        assert sorted(ids) == sorted(delivered)


@pytest.mark.parametrize("venue", ["HITBTC", "BEQUANT"])
@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_the_leader_reports_how_many_messages_it_left_out(
    recorded: Path, venue: str, count: int
) -> None:
    """Those that some connection had delivered when a promise passed them, and that did not
    stay."""
    forms = replicas(recorded, venue)
    reported = 0
    for seed in range(count):
        random = Random(seed)
        waiting = {f"r{at}": batches(rows, random) for at, rows in enumerate(forms)}
        schema = waiting["r0"][0].schema
        merger, out = Merger(schema), []
        for name in waiting:
            merger.attach(name, insert_only=True)
        delivered: dict[str, int] = {}
        left_out: set[str] = set()
        while any(waiting.values()):
            name = random.choice([name for name, rest in waiting.items() if rest])
            batch = waiting[name].pop(0)
            promised = merger.status().cti
            out += merger.push(name, batch)
            ids = set(table_of_batches(out, schema)["payload_id"].to_pylist())
            passed = {
                message
                for message, start in delivered.items()
                if promised <= start < merger.status().cti
            }
            left_out |= passed - ids
            message_ids = batch.payload.column("payload_id").to_pylist()
            delivered |= dict(zip(message_ids, batch.start.tolist(), strict=True))
        final = table_of_batches(out, schema)["payload_id"].to_pylist()
        assert len(final) == len(set(final))
        assert merger.status().left_out == len(left_out)
        assert len(final) + len(left_out) <= DISTINCT[venue]
        reported += len(left_out)
    assert reported > 0
