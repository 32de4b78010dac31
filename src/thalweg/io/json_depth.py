"""How deep JSON is nested, measured in columns of bytes before a parser sees it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["DEEPEST", "deepest"]

DEEPEST = 200
"""Brackets that may be open at once in a record of JSON."""


def deepest(data: bytes) -> int:
    """How many brackets are open at once, at most: exact for records that are whole, else not
    less."""
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return 0
    bytes_ = np.frombuffer(data, np.uint8)
    opens = (bytes_ == 0x5B) | (bytes_ == 0x7B)
    if _is_one_record_a_line(data):
        ends = np.flatnonzero(bytes_ == 10)
        most = np.diff(np.searchsorted(np.flatnonzero(opens), ends), prepend=0, append=0).max()
        last = int(np.count_nonzero(opens[ends[-1] :])) if len(ends) else int(opens.sum())
        if max(int(most), last) <= DEEPEST:
            return 0
    step = opens.astype(np.int8)
    step -= (bytes_ == 0x5D) | (bytes_ == 0x7D)
    step[_in_strings(bytes_)] = 0
    depth = np.cumsum(step, dtype=np.int64)
    return int((depth - np.minimum(np.minimum.accumulate(depth), 0)).max(initial=0))


def _is_one_record_a_line(data: bytes) -> bool:
    """Whether every line ends with a closing bracket and the next begins with an opening one.

    No valid JSON goes on like this from one line to the next, so what a parser finds nested
    stands in one line.
    """
    inner = data.count(b"\n") - data.endswith(b"\n")
    return data.count(b"}\n{") + data.count(b"}\r\n{") == inner


def _in_strings(bytes_: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Which bytes of JSON stand between quotes; a string never goes on after a line end."""
    quotes = bytes_ == 0x22
    slashes = np.flatnonzero(bytes_ == 0x5C)
    if len(slashes):
        first = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
        run = np.diff(first, append=len(slashes))
        escaped = (slashes[first] + run)[run % 2 == 1]
        quotes[escaped[escaped < len(quotes)]] = False
    seen = np.cumsum(quotes, dtype=np.int64)
    ends = np.flatnonzero((bytes_ == 10) | (bytes_ == 13))
    lengths = np.diff(ends, prepend=-1, append=len(bytes_) - 1)
    before = np.repeat(np.concatenate([[0], seen[ends]]), lengths)
    inside: npt.NDArray[np.bool_] = (seen - before) % 2 == 1
    return inside
