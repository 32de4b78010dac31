"""The document's test streams, and playing them through a merge.

An event has an integer in [0, 400] and a random text. Gaps between starts are drawn from [0,
MaxGap]; lifetimes are such that about `live` events are active. `disorder` is the share of events
that arrive later than they should; a CTI comes after every 1/StableFreq events and is as strong as
the rest of the stream allows. All forms of a stream have one table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.baselines.merging import (
    CleanseMerge,
    CountingMerge,
    ResortMerge,
    SortMerge,
    separate_merge,
)
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY, Times
from thalweg.operators.base import Operator
from thalweg.operators.merging.kernel import MergeKernel
from thalweg.plan.merging import Level, MergePolicy

__all__ = ["DELIVERS", "MERGES", "SCHEMA", "Run", "forms", "make_merge", "play", "waited"]

SECOND = 1_000_000
MAX_GAP = 20 * SECOND
SCHEMA = pa.schema([("x", pa.int64()), ("text", pa.string())])
ORDERED = ("R0", "R1", "R2")


def forms(
    count: int,
    inputs: int,
    *,
    bytes_: int = 1_000,
    disorder: float = 0.0,
    stable: float = 0.01,
    live: int = 10_000,
    same: bool = True,
    seed: int = 7,
) -> list[list[Batch]]:
    """Forms of one stream of `count` events: equal copies, or each with a disorder of its own."""
    random = np.random.default_rng(seed)
    start = np.cumsum(random.integers(1, MAX_GAP, count))
    lifetime = live * MAX_GAP // 2
    letters = random.integers(97, 123, count * bytes_, dtype=np.uint8)
    offsets = np.arange(0, (count + 1) * bytes_, bytes_, dtype=np.int32)
    text = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))
    rows = pa.RecordBatch.from_arrays(
        [pa.array(random.integers(0, 401, count)), text], schema=SCHEMA
    )
    size = max(1, round(1 / stable))
    made = []
    for number in range(1 if same else inputs):
        own = np.random.default_rng((seed, number))
        late = np.where(own.random(count) < disorder, own.integers(0, 50 * MAX_GAP, count), 0)
        order = np.argsort(start + late, kind="stable")
        arrived = rows if not disorder else rows.take(pa.array(order))
        made.append(_cut(arrived, start[order], lifetime, size))
    return made * inputs if same else made


def _cut(rows: pa.RecordBatch, start: Times, lifetime: int, size: int) -> list[Batch]:
    later = np.minimum.accumulate(start[::-1])[::-1]
    cut = []
    for at in range(0, len(start), size):
        end = min(at + size, len(start))
        promise = int(later[end]) if end < len(start) else INFINITY
        begins = start[at:end]
        part = rows.slice(at, end - at)
        cut.append(Batch(part, begins, begins + lifetime, progress=Progress(promise)))
    return cut


def make_merge(name: str, schema: pa.Schema, inputs: int, **options: object) -> Operator:
    """A merge by the name that figures give it."""
    names = tuple(f"input {number}" for number in range(inputs))
    return MERGES[name](schema, names, **options)


def _level(level: Level) -> Callable[..., Operator]:
    def make(schema: pa.Schema, names: tuple[str, ...], **options: Any) -> Operator:
        policy = options.pop("policy", MergePolicy())
        assert isinstance(policy, MergePolicy)
        return MergeKernel(schema, names, level=level, policy=policy, **options)

    return make


MERGES: dict[str, Callable[..., Operator]] = {
    "R0": _level("R0"),
    "R1": _level("R1"),
    "R2": _level("R2"),
    "R3+": _level("R3"),
    "R4": _level("R4"),
    "R3-": separate_merge,
    "C+R1": CleanseMerge,
    "counting": CountingMerge,
    "sort and drop": SortMerge,
    "sort and drop, as it goes": ResortMerge,
}

_FIRST = "with the first input"
DELIVERS: dict[str, tuple[str, str]] = {
    "R0": ("inserts, starts increase", _FIRST),
    "R1": ("inserts in one order", _FIRST),
    "R2": ("inserts in order", _FIRST),
    "R3+": ("anything, rows differ", _FIRST),
    "R4": ("anything", _FIRST),
    "R3-": ("anything, rows differ", _FIRST),
    "C+R1": ("anything", "when nothing can change the row"),
    "counting": ("identical sequences, no input fails", _FIRST),
    "sort and drop": ("inserts, no input fails", "when the slowest input has promised"),
    "sort and drop, as it goes": ("anything, rows differ", _FIRST),
}
"""By merge: the inputs it takes, and when a row goes out. Where inputs are in step, all of them
have sent a row before the next one comes; `waited` says what it costs when they are not."""


@dataclass
class Run:
    """What one run took and gave."""

    seconds: float
    elements_in: int
    elements_out: int
    adjusts: int
    most_bytes: int
    mean_bytes: float

    @property
    def input_rate(self) -> float:
        return self.elements_in / self.seconds

    @property
    def output_rate(self) -> float:
        return self.elements_out / self.seconds


def play(merge: Operator, streams: Sequence[Sequence[Batch]], *, lag: int = 0) -> Run:
    """Every input sends its batches in turn; input k is `k * lag` batches behind the first one.
    Seconds are processor time of the merge alone."""
    seconds, out, adjusts, taken = 0.0, 0, 0, 0
    sizes: list[int] = []
    longest = max(map(len, streams))
    # A step that shares a factor with the distance of CTIs would see the state right after one.
    step = max(1, longest // 50)
    while gcd(step, 10) > 1:
        step += 1
    for turn in range(longest + lag * (len(streams) - 1)):
        for port, batches in enumerate(streams):
            at = turn - lag * port
            if not 0 <= at < len(batches):
                continue
            begin = time.thread_time()
            answer = merge.process(port, batches[at])
            seconds += time.thread_time() - begin
            taken += len(batches[at])
            out += len(answer)
            adjusts += 0 if answer.is_adjust is None else int(answer.is_adjust.sum())
        if turn % step == 0 and turn > longest // 4:
            sizes.append(merge.state_size().bytes)
    sizes = sizes or [merge.state_size().bytes]
    return Run(seconds, taken, out, adjusts, max(sizes), sum(sizes) / len(sizes))


def waited(merge: Operator, streams: Sequence[Sequence[Batch]], *, lag: int) -> float:
    """The mean time, in seconds of the data, from the moment a row first came in to the moment it
    went out; input k is `k * lag` batches behind the first one. No two rows start together."""
    start = np.concatenate([batch.start for batch in streams[0]])
    known = np.sort(start)
    came: Times = np.full(len(known), INFINITY)
    clock, total, rows = 0, 0.0, 0
    for turn in range(len(streams[0]) + lag * (len(streams) - 1)):
        for port, batches in enumerate(streams):
            at = turn - lag * port
            if not 0 <= at < len(batches):
                continue
            clock = max(clock, int(batches[at].start.max()))
            mine = np.searchsorted(known, batches[at].start)
            came[mine] = np.minimum(came[mine], clock)
            out = merge.process(port, batches[at])
            sent = out.start if out.is_adjust is None else out.start[~out.is_adjust]
            total += float((clock - came[np.searchsorted(known, sent)]).sum())
            rows += len(sent)
    return total / max(rows, 1) / SECOND
