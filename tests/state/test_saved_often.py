"""A snapshot made of slices that were kept from earlier ones reads back as one that was written at
once: no change of a kernel is left out of what it writes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.graph import QueryGraph, build_graph
from thalweg.model.batch import Batch
from thalweg.model.cht import Row, rows_of_table, table_of_batches
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY
from thalweg.operators.consistency import Consistency
from thalweg.testing.held_state import CASES, SCHEMA

BATCHES, ROWS, STEP = 12, 60, 60
"""So many batches of so many rows, each later than the one before."""


def batch_of(turn: int, random: np.random.Generator, before: Batch | None) -> Batch:
    """Rows on a stretch of time that moves on, changes of ends of the last batch, and a promise."""
    number = turn * ROWS + np.arange(ROWS)
    start = turn * STEP + random.integers(0, 2 * STEP, ROWS)
    rows = [pa.array(number * 7 % 40), pa.array(number % 97)]
    batch = Batch(pa.RecordBatch.from_arrays(rows, schema=SCHEMA), start, start + 1 + number % 50)
    if before is not None:
        which = random.choice(ROWS, ROWS // 4, replace=False)
        ends = before.end[which]
        changed = Batch(
            before.payload.take(pa.array(which)),
            before.start[which],
            ends,
            np.maximum(ends, turn * STEP) + random.integers(0, 9, len(which)),
            np.ones(len(which), np.bool_),
        )
        batch = Batch.concat([batch, changed], SCHEMA)
    return batch.with_progress(Progress(turn * STEP)) if turn % 3 == 2 else batch


def script(kernel: str) -> list[Batch]:
    random = np.random.default_rng(sum(kernel.encode()))
    adjusts = not CASES[kernel].declared.get("insert_only")
    batches: list[Batch] = []
    inserted: Batch | None = None
    for turn in range(BATCHES):
        batches.append(batch_of(turn, random, inserted if adjusts else None))
        inserted = Batch(
            batches[-1].payload.slice(0, ROWS), batches[-1].start[:ROWS], batches[-1].end[:ROWS]
        )
    return [*batches, Batch.empty(SCHEMA, Progress(INFINITY))]


def graph_of(kernel: str) -> QueryGraph:
    case = CASES[kernel]
    declared = dict(case.declared)
    a, b = (tw.source(name, SCHEMA, **declared) for name in "ab")  # type: ignore[arg-type]
    return build_graph(case.build(a, b).node, Consistency(case.consistency))[0]


def play(graph: QueryGraph, batch: Batch, *, save: bool = False) -> list[Batch]:
    out: list[Batch] = []
    for name in sorted(graph.sources):
        graph.offer(name, batch)
        out += graph.run()
        if save:
            graph.snapshot()
    return out


@pytest.mark.parametrize("kernel", [name for name, case in CASES.items() if case.holds_rows])
def test_kept_slices_are_what_would_be_written_now(kernel: str) -> None:
    steps = script(kernel)
    whole, often = graph_of(kernel), graph_of(kernel)
    expected = [batch for step in steps for batch in play(whole, step)]
    seen: list[Batch] = []
    for number, step in enumerate(steps):
        seen += play(often, step, save=True)
        if number == len(steps) * 2 // 3:
            state, often = often.snapshot(), graph_of(kernel)
            often.restore(state)
    assert table(seen, whole) == table(expected, whole)


def table(batches: list[Batch], graph: QueryGraph) -> list[Row]:
    return rows_of_table(table_of_batches(batches, graph.end.kernel.schema))
