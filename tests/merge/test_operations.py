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


def slope(few: float, many: float) -> float:
    """Of the cost, as a power of what grew by ten."""
    return float(np.log10(many / few))


def test_r4_a_promise_costs_what_it_freezes_times_its_duplicates() -> None:
    """d ends of each payload and start (h d in the document's table)."""
    costs = []
    for duplicates in (10, 100):
        kernel = MergeKernel(SCHEMA, ("a", "b"), level="R4")
        for port in (0, 1):
            for lasting in range(1, duplicates + 1):
                kernel.process(port, rows(0, 50, 1_000_000, lasting=10**6 + lasting))
        before = operations(kernel)
        kernel.process(0, Batch.empty(SCHEMA, Progress(1_000_060)))
        costs.append(operations(kernel) - before)
    assert 0.8 <= slope(*costs) <= 1.2


def test_r2_holds_the_rows_at_the_highest_start() -> None:
    """g of them."""
    held = []
    for together in (100, 1_000):
        kernel = MergeKernel(SCHEMA, ("a", "b"), level="R2")
        batch = rows(0, together, 5)
        same = Batch(batch.payload, np.full(together, 5), np.full(together, 9))
        for port in (0, 1):
            kernel.process(port, same)
        held.append(kernel.state_size().rows)
    assert 0.8 <= slope(*held) <= 1.2


@pytest.mark.parametrize("level", ["R3", "R4"])
def test_space_grows_with_rows_and_little_with_inputs(level: Level) -> None:
    """w (p + n): the payloads once, and a number for each input (d numbers at R4)."""

    def size(inputs: int, live: int) -> int:
        kernel = MergeKernel(SCHEMA, tuple(f"i{at}" for at in range(inputs)), level=level)
        for port in range(inputs):
            kernel.process(port, rows(0, live, 1_000_000))
        return kernel.state_size().bytes

    assert 0.8 <= slope(size(2, 2_000), size(2, 20_000)) <= 1.2
    extra = (size(20, 2_000) - size(2, 2_000)) / 18 / 2_000
    assert extra <= (2 * 8 if level == "R3" else 150)  # columns have room for twice the rows
