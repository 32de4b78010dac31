"""Other ways to merge streams that mean the same, to compare LMerge with.

- `SeparateLevel` (LM-R3-): an index for each input and another for the output; payloads are held as
  often as there are inputs.
- `CleanseMerge` (C+LM-R1): each input is first put in order, by holding every row until nothing can
  change it; then R1.
- `CountingMerge`: follows the input that has sent most. Right only for identical sequences.
- `SortMerge`: holds what all inputs send; where all have promised, sorts it and drops duplicates.
  It answers when the slowest input has promised, and takes inserts only.
- `ResortMerge`: the same idea for the input that LMerge takes: adjusts, answers as they come, and
  the promise of the fastest input. Every batch makes the rows of all inputs anew, drops duplicates,
  and says how that differs from what was shown.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.digests import Digests, digest_rows
from thalweg.model.progress import NO_PROGRESS, Progress, Scope
from thalweg.model.rows import Codes, Rows, take_rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import Operator, StateSize
from thalweg.operators.merging.chains import ABSENT, distinct_digests, left_ends
from thalweg.operators.merging.changes import Changes
from thalweg.operators.merging.digest_table import grown
from thalweg.operators.merging.kernel import MergeKernel
from thalweg.operators.merging.level import MergeContext, MergeInput, MergeLevel
from thalweg.operators.merging.slot_ranges import listed, part_of, where
from thalweg.operators.merging.top_tier import TopTier
from thalweg.operators.rows.in_order import canonical_order
from thalweg.plan.merging import MergePolicy

__all__ = [
    "CleanseMerge",
    "CountingMerge",
    "ResortMerge",
    "SeparateLevel",
    "SortMerge",
    "separate_merge",
]


class _Index:
    """Rows of one stream with their ends."""

    def __init__(self, schema: pa.Schema) -> None:
        self.top = TopTier(schema)
        self.end: Times = np.full(self.top.capacity, ABSENT)

    def put(self, batch: Batch, after: Times) -> Codes:
        digests = digest_rows([*batch.payload.columns, batch.start], len(batch))
        slots = self.top.table.find(digests)
        fresh = np.flatnonzero(slots < 0)
        if len(fresh):
            first, codes = distinct_digests(digests.take(fresh))
            which = fresh[first]
            added = self.top.add(
                digests.take(which), take_rows(batch.payload, which), batch.start[which]
            )
            self.end = grown(self.end, self.top.capacity, ABSENT)
            slots[fresh] = added[codes]
        self.end[slots] = after
        return slots

    def drop_before(self, time: int) -> None:
        slots = self.top.reach(time)
        gone = self.end[slots] < time
        self.end[part_of(slots, where(gone))] = ABSENT
        self.top.remove(self.top.remove_half(gone))

    @property
    def nbytes(self) -> int:
        return self.top.nbytes + self.end.nbytes


class SeparateLevel(MergeLevel):
    """LM-R3-: what R3 does, with an index for each input."""

    name = "R3-"

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.inputs: dict[int, _Index] = {}
        self.out = _Index(schema)
        self._new = Batch.empty(schema)

    def attach(self, member: MergeInput) -> None:
        self.inputs[member.column] = _Index(self.schema)

    def detach(self, member: MergeInput, context: MergeContext) -> None:
        del self.inputs[member.column]

    def update(self, member: MergeInput, batch: Batch, context: MergeContext) -> None:
        if not len(batch):
            return
        own = self.inputs[member.column]
        digests = digest_rows([*batch.payload.columns, batch.start], len(batch))
        fresh = batch.start >= context.settled
        shown_before = self.out.top.table.find(digests) >= 0
        wanted = fresh | shown_before | (own.top.table.find(digests) >= 0)
        taken = batch.filter(wanted)
        own.put(taken, left_ends(taken))
        new = np.flatnonzero(fresh & ~shown_before)
        first, _ = distinct_digests(digests.take(new))
        shown = batch.take(new[first])
        shown = shown.filter(left_ends(shown) != ABSENT).with_progress(NO_PROGRESS)
        if len(shown):
            self.out.put(shown, left_ends(shown))
            self._new = Batch(shown.payload, shown.start, left_ends(shown))

    def advance(self, leader: MergeInput, time: int, context: MergeContext) -> Batch:
        slots = listed(self.out.top.reach(time))
        led = self.inputs[leader.column]
        found = led.top.table.find(
            Digests(self.out.top.table.high[slots], self.out.top.table.low[slots])
        )
        in_end = np.where(found >= 0, led.end[found], ABSENT)
        out_end = self.out.end[slots]
        have, shown = in_end != ABSENT, out_end != ABSENT
        free = self.out.top.start[slots] >= context.settled
        vanish = shown & ~have & free
        move = have & shown & (in_end != out_end) & ((in_end < time) | (out_end < time))
        changes = Changes()
        changes.adjust(slots[vanish], out_end[vanish], self.out.top.start[slots[vanish]])
        changes.adjust(slots[move], out_end[move], in_end[move])
        now = np.where(vanish, ABSENT, np.where(move, in_end, out_end))
        self.out.end[slots] = now
        batch = changes.to_batch(self.out.top.start, self.out.top.payloads.take, self.schema)
        gone = now < time
        self.out.top.remove(self.out.top.remove_half(gone))
        for index in self.inputs.values():
            index.drop_before(time)
        new, self._new = self._new, Batch.empty(self.schema)
        return Batch.concat([new, batch], self.schema)

    def advance_groups(
        self, leader: MergeInput, times: Mapping[Scope, int], context: MergeContext
    ) -> Batch:
        raise NotImplementedError("a baseline takes promises for all groups only")

    def show(self, member: MergeInput, context: MergeContext) -> Batch:
        new, self._new = self._new, Batch.empty(self.schema)
        return new

    def snapshot(self) -> dict[str, Rows]:
        raise NotImplementedError("a baseline keeps no snapshots")

    def restore(self, slices: Mapping[str, Rows], columns: int, settled: int) -> None:
        raise NotImplementedError("a baseline keeps no snapshots")

    def state_size(self) -> StateSize:
        held = [self.out, *self.inputs.values()]
        return StateSize(sum(len(one.top) for one in held), sum(one.nbytes for one in held))


def separate_merge(schema: pa.Schema, inputs: tuple[str, ...]) -> MergeKernel:
    """A merge at R3-."""
    kernel = MergeKernel(schema)
    kernel.level = SeparateLevel(schema)
    for name in inputs:
        kernel.attach(name)
    kernel.ports = len(inputs)
    return kernel


class CleanseMerge(Operator):
    """C+LM-R1."""

    def __init__(self, schema: pa.Schema, inputs: tuple[str, ...]) -> None:
        self.schema = schema
        self.ports = len(inputs)
        self._held = [Delta.empty(schema) for _ in inputs]
        self._progress = [NO_PROGRESS for _ in inputs]
        self._merge = MergeKernel(schema, inputs, level="R1", policy=MergePolicy())

    def process(self, port: int, batch: Batch) -> Batch:
        held = Delta.concat([self._held[port], Delta.of_batch(batch)], self.schema)
        self._progress[port] = self._progress[port].merge(batch.progress)
        time = self._progress[port].cti
        if batch.progress.cti <= MIN_TIME:
            self._held[port] = held
            return Batch.empty(self.schema)
        held = held.consolidate()
        open_ = held.end >= time if time < INFINITY else np.zeros(len(held), np.bool_)
        limit = min(int(held.start[open_].min(initial=INFINITY)), time)
        ready = held.start < limit
        self._held[port] = held.filter(~ready)
        out = held.filter(ready)
        rows = Batch(out.payload, out.start, out.end)
        return self._merge.process(port, canonical_order(rows).with_progress(Progress(limit)))

    def state_size(self) -> StateSize:
        rows, bytes_ = sum(map(len, self._held)), sum(held.nbytes for held in self._held)
        return StateSize(rows, bytes_) + self._merge.state_size()


class CountingMerge(Operator):
    """Follows the input with the largest count."""

    def __init__(self, schema: pa.Schema, inputs: tuple[str, ...]) -> None:
        self.schema, self.ports = schema, len(inputs)
        self._counts = [0] * len(inputs)

    def process(self, port: int, batch: Batch) -> Batch:
        sent = max(self._counts)
        begin = max(0, min(sent - self._counts[port], len(batch)))
        self._counts[port] += len(batch)
        return batch.take(np.arange(begin, len(batch)))

    def state_size(self) -> StateSize:
        return StateSize(0, 8 * len(self._counts))


class SortMerge(Operator):
    """Sorts and drops duplicates up to where every input has promised."""

    def __init__(self, schema: pa.Schema, inputs: tuple[str, ...]) -> None:
        self.schema, self.ports = schema, len(inputs)
        self._held: list[Batch] = []
        self._promised = [MIN_TIME] * len(inputs)
        self._settled = MIN_TIME

    def process(self, port: int, batch: Batch) -> Batch:
        self._held.append(batch.with_progress(NO_PROGRESS))
        self._promised[port] = max(self._promised[port], batch.progress.cti)
        time = min(self._promised)
        if time <= self._settled:
            return Batch.empty(self.schema)
        table = Batch.concat(self._held, self.schema)
        keys = [
            pa.array(table.start),
            pa.array(table.end),
            *table.payload.columns,
        ]
        names = ["_start", "_end", *self.schema.names]
        whole = pa.Table.from_arrays([*keys, pa.array(np.arange(len(table)))], [*names, "_at"])
        first = whole.group_by(names, use_threads=False).aggregate([("_at", "min")])
        at = np.sort(first["_at_min"].to_numpy())
        order = at[np.argsort(table.start[at], kind="stable")]
        ready = table.start[order] < time
        self._settled = time
        rest = table.take(order[~ready])
        self._held = [rest] if len(rest) else []
        return table.take(order[ready]).with_progress(Progress(time))

    def state_size(self) -> StateSize:
        rows = sum(map(len, self._held))
        return StateSize(rows, sum(int(batch.payload.nbytes) for batch in self._held) + 16 * rows)


class ResortMerge(Operator):
    """Sorts and drops duplicates with every batch."""

    def __init__(self, schema: pa.Schema, inputs: tuple[str, ...]) -> None:
        self.schema, self.ports = schema, len(inputs)
        self._rows = [Delta.empty(schema) for _ in inputs]
        self._shown = Delta.empty(schema)
        self._promised = [MIN_TIME] * len(inputs)
        self._settled = MIN_TIME

    def process(self, port: int, batch: Batch) -> Batch:
        changed = Delta.concat([self._rows[port], Delta.of_batch(batch)], self.schema)
        self._rows[port] = changed.consolidate()
        self._promised[port] = max(self._promised[port], batch.progress.cti)
        leader = int(np.argmax(self._promised))
        before, self._settled = self._settled, max(self._settled, self._promised[leader])
        wanted = self._distinct(leader, before)
        change = Delta.concat([wanted, self._shown.negate()], self.schema).consolidate()
        self._shown = self._live(wanted)
        self._rows = [self._live(rows) for rows in self._rows]
        return change.to_batch(Progress(self._settled))

    def _distinct(self, leader: int, before: int) -> Delta:
        """The rows of the input that leads, and those that the others have after its promise."""
        led = self._rows[leader]
        parts = [led.filter(led.end >= before)]
        for at, rows in enumerate(self._rows):
            if at != leader:
                parts.append(rows.filter(rows.start >= self._settled))
        rows = Delta.concat(parts, self.schema)
        names = ["_start", *self.schema.names]
        columns = [pa.array(rows.start), *rows.payload.columns, pa.array(np.arange(len(rows)))]
        found = pa.Table.from_arrays(columns, [*names, "_at"]).group_by(names, use_threads=False)
        return rows.take(np.sort(found.aggregate([("_at", "min")])["_at_min"].to_numpy()))

    def _live(self, rows: Delta) -> Delta:
        if self._settled == INFINITY:
            return Delta.empty(self.schema)
        return rows.filter(rows.end >= self._settled)

    def state_size(self) -> StateSize:
        held = [self._shown, *self._rows]
        return StateSize(sum(map(len, held)), sum(rows.nbytes for rows in held))
