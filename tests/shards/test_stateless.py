"""Queries that keep no rows: what runs where the rows are read, judged by promises that one place
follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.errors import LateEventError, StateError
from thalweg.model.batch import Batch
from thalweg.operators.consistency import Consistency
from thalweg.shards.exchange.chunk import Chunk
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import Ingest
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import sources_of, targets_of
from thalweg.shards.reports.combined import sum_figures
from thalweg.shards.stateless.progress_keeper import ProgressKeeper, keeps_nothing
from thalweg.shards.stateless.row_task import RowWorker

EVENTS: dict[str, str] = {"v": "int64"}
Rows = list[tuple[int, int]]
SPECULATIVE = Consistency("speculative")


def events(name: str = "s", **facts: Any) -> tw.Stream:
    return tw.source(name, EVENTS, insert_only=True, **facts)


class Tasks:
    """A query as Spark runs it: every micro-batch in tasks that know nothing of each other."""

    def __init__(self, query: tw.Stream, file: Path) -> None:
        self.plan = fragments_of(query.node)
        (self.fragment,) = self.plan.fragments
        self.keeper = ProgressKeeper(self.fragment, SPECULATIVE, file)
        self.ingests = {
            name: Ingest(targets_of(self.plan, [7], source=name)) for name in sources_of(self.plan)
        }
        self.late = 0

    def load(self, batch: int) -> None:
        """As after a crash, when the micro-batches before this one are done."""
        self.keeper.load("c", batch - 1)

    def chunk(self, source: str, rows: Rows, position: int) -> list[Chunk]:
        payload = pa.RecordBatch.from_arrays([pa.array([v for _, v in rows], pa.int64())], ["v"])
        start = pa.array([t for t, _ in rows], pa.int64()).to_numpy()
        newest = max((t for t, _ in rows), default=None)
        header = Header(newest=newest, begin=position, end=position + 1, rows=len(rows))
        made = self.ingests[source].rows(Batch(payload, start, start + 1), header, position)
        return [Chunk(row.origin, row.seq, Header.from_json(row.header), row.blob) for row in made]

    def run(self, batch: int, chunks: list[Chunk]) -> list[tuple[int, int]]:
        """Each chunk in a task of its own; the answers as (start, v)."""
        out: list[tuple[int, int]] = []
        operators = []
        self.late = 0
        for chunk in reversed(chunks):
            worker = RowWorker(self.fragment, SPECULATIVE)
            worker.start(self.keeper.before(batch))
            answer = worker.process(chunk)
            self.late += answer.late_rows
            operators.append(worker.figures)
            values = answer.batch.payload.column(0).to_pylist()
            out += zip(answer.batch.start.tolist(), values, strict=True)
        self.promise, self.report = self.keeper.follow(batch, chunks, sum_figures(operators))
        return sorted(out)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.lists(
            st.lists(st.tuples(st.integers(0, 60), st.integers(-5, 5)), max_size=6), max_size=3
        ),
        max_size=6,
    ),
    st.integers(0, 20),
    st.sampled_from(["drop", "adjust", "side"]),
    st.data(),
)
def test_rows_are_judged_by_the_promise_before_their_micro_batch(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[Rows]],
    disorder: int,
    late: str,
    data: st.DataObject,
) -> None:
    """Against the definition, row by row; some micro-batches run twice, as after a crash."""
    file = tmp_path_factory.mktemp("c") / "thalweg" / "promises.json"
    query = events(disorder=disorder, late=late).where("v != 0").select(v="v * 2")
    tasks = Tasks(query, file)
    tasks.keeper.load("c", -1)
    newest: int | None = None
    position = 0
    for number, batch in enumerate(batches):
        promise = None if newest is None else newest - disorder
        chunks: list[Chunk] = []
        for rows in batch:
            chunks += tasks.chunk("s", rows, position)
            position += 1
        kept = [(t, v) for rows in batch for t, v in rows if v != 0]
        is_late = [promise is not None and t < promise for t, _ in kept]
        expected = []
        for (t, v), moved in zip(kept, is_late, strict=True):
            # A point that is moved to the promise has nothing left of it.
            if not moved:
                expected.append((t, v * 2))
        for attempt in range(data.draw(st.integers(1, 2))):
            if attempt:
                tasks = Tasks(query, file)
                tasks.load(number)
            assert tasks.run(number, chunks) == sorted(expected)
            assert tasks.late == sum(is_late)
        times = [t for rows in batch for t, _ in rows]
        newest = max([*times, *([] if newest is None else [newest])], default=None)
        if newest is not None:
            assert tasks.promise == newest - disorder
        assert json.loads(tasks.report)["fragment"] == 0


def test_late_rows_are_refused_where_they_are_read(tmp_path: Path) -> None:
    tasks = Tasks(events(disorder=0).where("v > 0"), tmp_path / "c" / "promises.json")
    tasks.keeper.load("c", -1)
    tasks.run(0, tasks.chunk("s", [(10, 1)], 0))
    with pytest.raises(LateEventError, match="before the promise 10"):
        tasks.run(1, tasks.chunk("s", [(9, 1)], 1))


def test_two_streams_side_by_side(tmp_path: Path) -> None:
    query = events("a", disorder=5).where("v > 0").union(events("b", disorder=5, late="drop"))
    tasks = Tasks(query, tmp_path / "c" / "promises.json")
    tasks.keeper.load("c", -1)
    chunks = tasks.chunk("a", [(10, 1), (11, 0)], 0) + tasks.chunk("b", [(30, 2)], 0)
    assert tasks.run(0, chunks) == [(10, 1), (30, 2)]
    assert tasks.promise == 6
    assert tasks.run(1, tasks.chunk("b", [(20, 3), (31, 4)], 1)) == [(31, 4)]
    assert tasks.late == 1


def test_input_that_was_read_already_is_refused(tmp_path: Path) -> None:
    tasks = Tasks(events(disorder=0).where("v > 0"), tmp_path / "c" / "promises.json")
    tasks.keeper.load("c", -1)
    first = tasks.chunk("s", [(10, 1)], 0)
    tasks.run(0, first)
    with pytest.raises(StateError, match="read already"):
        tasks.run(1, first)
    with pytest.raises(StateError, match="begins at 2"):
        tasks.run(1, tasks.chunk("s", [(11, 1)], 2))


def test_promises_that_were_damaged_lost_or_mixed_up_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "c" / "thalweg" / "promises.json"
    query = events(disorder=0).where("v > 0")
    tasks = Tasks(query, file)
    tasks.keeper.load("c", -1)
    for batch in range(3):
        tasks.run(batch, tasks.chunk("s", [(10 + batch, 1)], batch))
    again = Tasks(query, file)
    again.keeper.load("c", 1)
    assert again.keeper.before(2) == tasks.keeper.before(2)
    with pytest.raises(StateError, match="micro-batch 1 runs"):
        again.keeper.before(1)
    for identity, finished in (("other", 2), ("c", 3), ("c", 0), ("c", -1)):
        with pytest.raises(StateError, match="mixed with another"):
            Tasks(query, file).keeper.load(identity, finished)
    content = file.read_bytes()
    for at in range(0, len(content), 97):
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(StateError, match="damaged"):
            Tasks(query, file).keeper.load("c", 2)
    file.unlink()
    with pytest.raises(StateError, match="it is gone"):
        Tasks(query, file).keeper.load("c", 2)


def test_which_queries_keep_nothing() -> None:
    plain = events(disorder=3)
    kept = [
        plain.group_by("v").tumbling(5).aggregate(n=tw.count()),
        tw.source("s", EVENTS).where("v > 0"),  # its rows may be adjusted
        events(progress=[tw.timer(every="1 s", behind="1 s")]).where("v > 0"),
    ]
    for query in (plain, plain.where("v > 0").select(w="v + 1"), plain.union(events("t"))):
        assert keeps_nothing(fragments_of(query.node), SPECULATIVE)
        assert not keeps_nothing(fragments_of(query.node), SPECULATIVE, {"s"})
    for query in kept:
        assert not keeps_nothing(fragments_of(query.node), SPECULATIVE)
