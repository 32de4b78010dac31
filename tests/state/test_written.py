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

ONE_WINDOW = ("TablePanesKernel", "WindowEngine, calendar")
"""Cases with one window over everything, which a promise in the midst does not close."""
KEPT_LONGER = {"WindowEngine, count": (0.35, 0.75)}
"""Kernels that keep the last rows of every group beside those of open windows: what share of their
bytes a promise writes, and leaves."""


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


@pytest.mark.parametrize(
    "kernel",
    [name for name, case in CASES.items() if case.holds_rows and name not in ONE_WINDOW],
)
def test_a_promise_removes_slices_and_rewrites_few(kernel: str) -> None:
    """Half of the rows end, or their windows close: their slices go; at most the slices across the
    promise are written again."""
    held = HeldState(kernel, HELD // 10)
    before = held.bytes()
    held.promise(SPAN // 2)
    written, left = KEPT_LONGER.get(kernel, (0.15, 0.6))
    assert held.written_share() < written
    assert held.bytes() < left * before


@pytest.mark.parametrize("kernel", sorted(CASES))
def test_after_the_end_nothing_is_held(kernel: str) -> None:
    held = HeldState(kernel, 2_000)
    held.promise(INFINITY)
    assert held.rows() == 0
