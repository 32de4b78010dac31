"""What a micro-batch writes follows what it touches: every operator that keeps state, by name.

200,000 rows are held; ten more that touch one stretch of time write less than 5% of the bytes.
"""

from __future__ import annotations

import pytest

from thalweg.model.time import INFINITY
from thalweg.testing.held_state import CASES, NO_QUERY, SPAN, HeldState, stateful_kernels

HELD = 200_000
SMALL = 4_096
"""Bytes of a kernel that keeps no rows: how far its inputs have come."""

WRITES_ALL: dict[str, str] = {}
"""Kernels that still write more than they touch, and why. One that is mended is taken off."""

ROWS = (
    "IngressKernel",
    "JoinKernel",
    "MatchJoinKernel",
    "CoverageKernel",
    "ClipByKernel",
    "StitchKernel",
    "DistinctKernel",
    "TopKKernel",
    "SnapshotAggregateKernel",
    "FinalGateKernel",
    "MergeKernel",
)
"""Kernels that forget rows when the promise passes their ends."""


def test_every_stateful_kernel_has_a_case() -> None:
    kernels = set(stateful_kernels())
    named = {name.partition(", ")[0] for name in CASES}
    missing = kernels - named - set(NO_QUERY)
    assert missing == set(), "write a case for these in testing/held_state.py"
    assert (named | set(NO_QUERY)) - kernels == set()
    assert set(WRITES_ALL) <= set(CASES)


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(
            name,
            marks=pytest.mark.xfail(reason=WRITES_ALL[name], strict=True)
            if name in WRITES_ALL
            else (),
        )
        for name in CASES
    ],
)
def test_a_small_batch_writes_little(kernel: str) -> None:
    held = HeldState(kernel, HELD)
    if not CASES[kernel].holds_rows:
        assert held.bytes() < SMALL
        return
    assert held.rows() >= HELD // 2, "the case must hold rows"
    for source in held.sources:
        for turn in range(2):
            held.push(source, turn)
            assert held.written_share() < 0.05


@pytest.mark.parametrize("kernel", ROWS)
def test_a_promise_removes_slices_and_rewrites_few(kernel: str) -> None:
    """Half of the rows end: their slices go; at most the slices across the promise are written
    again."""
    held = HeldState(kernel, HELD // 10)
    before = held.bytes()
    held.promise(SPAN // 2)
    assert held.written_share() < 0.15
    assert held.bytes() < 0.6 * before


@pytest.mark.parametrize("kernel", sorted(CASES))
def test_after_the_end_nothing_is_held(kernel: str) -> None:
    held = HeldState(kernel, 2_000)
    held.promise(INFINITY)
    assert held.rows() == 0
