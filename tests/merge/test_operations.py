"""Table IV by counted operations: what a batch costs as the index grows tenfold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.model import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.operators.merging.counted import CountedLevel
from thalweg.operators.merging.kernel import MergeKernel
from thalweg.operators.merging.keyed import KeyedLevel
from thalweg.plan.merging import Level

SCHEMA = pa.schema([("v", pa.int64())])


def rows(
    first: int, count: int, start: int, *, cti: int | None = None, lasting: int = 10**6
) -> Batch:
    begins = np.full(count, start) + np.arange(count)
    payload = pa.RecordBatch.from_pydict({"v": np.arange(first, first + count)})
    progress = NO_PROGRESS if cti is None else Progress(cti)
    return Batch(payload, begins, begins + lasting, progress=progress)


def operations(kernel: MergeKernel) -> int:
    level = kernel.level
    assert isinstance(level, KeyedLevel | CountedLevel)
    return level.operations + level.top.table.operations


def cost(level: Level, inputs: int, live: int, batch: Batch) -> int:
    """Operations for one batch of the first input, when so many rows are live in all inputs."""
    kernel = MergeKernel(SCHEMA, tuple(f"i{at}" for at in range(inputs)), level=level)
    for port in range(inputs):
        kernel.process(port, rows(0, live, 1_000_000))
    before = operations(kernel)
    kernel.process(0, batch)
    return operations(kernel) - before


@pytest.mark.parametrize("level", ["R3", "R4"])
def test_an_insert_does_not_touch_the_live_rows(level: Level) -> None:
    few, many = (cost(level, 2, live, rows(10**7, 100, 2 * 10**6)) for live in (1_000, 10_000))
    assert many <= 1.2 * few  # lg w in the document; a hash table here


@pytest.mark.parametrize("level", ["R3", "R4"])
def test_an_insert_does_not_depend_on_the_number_of_inputs(level: Level) -> None:
    few, many = (cost(level, inputs, 1_000, rows(10**7, 100, 2 * 10**6)) for inputs in (2, 20))
    assert many <= 1.2 * few


@pytest.mark.parametrize("level", ["R3", "R4"])
def test_a_promise_costs_what_it_freezes(level: Level) -> None:
    """c rows are settled; w grows, c does not."""
    empty = Batch.empty(SCHEMA, Progress(1_000_000 + 50))
    few, many = (cost(level, 2, live, empty) for live in (1_000, 10_000))
    assert many == few
    later = Batch.empty(SCHEMA, Progress(1_000_000 + 500))
    assert 8 <= cost(level, 2, 10_000, later) / few <= 12


def test_r0_to_r2_hold_nothing_that_grows() -> None:
    sizes: dict[str, list[int]] = {}
    for level in ("R0", "R1", "R2"):
        for count in (100, 1_000):
            kernel = MergeKernel(SCHEMA, ("a", "b"), level=level)
            for port in (0, 1):
                kernel.process(port, rows(0, count, 0))
            sizes.setdefault(level, []).append(kernel.state_size().bytes)
    assert all(few == many for few, many in sizes.values())
