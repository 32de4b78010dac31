"""First come, first served, in columns: each request takes the earliest item that still waits.

Items stand in a line, ordered; so do requests. Request j may take the items `low[j]` to
`high[j] - 1`, both bounds never falling, and takes the first of them that no earlier request took.
With q[j] the first item that is left after request j,

    m[j] = max(q[j-1], low[j])         the item that request j takes, if m[j] < high[j]
    q[j] = min(m[j] + 1, high[j])

and with r[j] = q[j] - j that is r[j] = min(max(r[j-1], low[j] + 1 - j), high[j] - j): each step
clamps the value before it. Clamps compose to clamps, so that the line is cut into blocks, all
blocks advance together, and a second pass joins them: linear work and no loop over rows.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Codes

__all__ = ["clamp_scan", "serve"]

_STEP = 16
"""A step of all blocks together costs as much as so many blocks one by one."""


def serve(low: Codes, high: Codes) -> tuple[Codes, Codes]:
    """For each request the item it takes, or -1; and the first item left after it.

    >>> serve(np.array([0, 0, 1, 1]), np.array([1, 1, 3, 3]))[0].tolist()
    [0, -1, 1, 2]
    """
    if not len(low):
        return low, low
    turn = np.arange(len(low))
    left = clamp_scan(low + 1 - turn, high - turn) + turn
    before = np.concatenate([low[:1], left[:-1]])
    item = np.maximum(before, low)
    return np.where(item < high, item, -1), left


def clamp_scan(low: Codes, high: Codes) -> Codes:
    """r[j] = min(max(r[j-1], low[j]), high[j]), where nothing stands before r[0].

    >>> clamp_scan(np.array([3, 0, 0, 5]), np.array([9, 9, 2, 9])).tolist()
    [3, 3, 2, 5]
    """
    size = len(low)
    width = max(int(np.sqrt(size / _STEP)), 1)
    blocks = -(-size // width)
    padded = np.full((2, blocks * width), 0, np.int64)
    padded[0, :size], padded[1, :size] = low, high
    # The padding repeats the last clamp, which changes nothing.
    padded[0, size:], padded[1, size:] = low[-1], high[-1]
    lows, highs = padded.reshape(2, blocks, width)
    into = _enter_blocks(lows, highs)
    result = np.empty((blocks, width), np.int64)
    for column in range(width):
        into = np.minimum(np.maximum(into, lows[:, column]), highs[:, column])
        result[:, column] = into
    return result.reshape(-1)[:size]


def _enter_blocks(lows: Codes, highs: Codes) -> Codes:
    """The value in front of each block."""
    blocks, width = lows.shape
    unbounded = np.iinfo(np.int64)
    least, most = np.full(blocks, unbounded.min), np.full(blocks, unbounded.max)
    for column in range(width):
        least = np.minimum(np.maximum(least, lows[:, column]), highs[:, column])
        most = np.minimum(np.maximum(most, lows[:, column]), highs[:, column])
    # Each block is now one clamp to [least, most]; `blocks` is about four times the
    # root of the size.
    into = np.empty(blocks, np.int64)
    value = int(unbounded.min)
    for block, (floor, ceiling) in enumerate(zip(least.tolist(), most.tolist(), strict=True)):
        into[block] = value
        value = min(max(value, floor), ceiling)
    return into
