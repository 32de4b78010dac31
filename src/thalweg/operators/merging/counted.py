"""R4: any order, any elements, and the table is a multiset.

    in3t    top tier     every live payload and start once (`top_tier`)
            second tier  for each input and the output: how many copies of the row; columns
            third tier   for each input and the output: how often each end occurs (`end_counts`)

Meaning: the table of the input that leads, as a multiset. An insert is shown, that is inserted into
the output, when its input then has more copies of the row than the output. Before the output
promises `t`, for each payload and start before `t`:

    the output has as many rows as the input that leads (AdjustOutputCount), and
    it has each end before `t` as often (AdjustOutput),

with the fewest adjusts. Let `S` be the copies that the output has too many, by end, and `D` those
it has too few, each ordered with the ends before `t` first. Ends of `S` before `t` must vanish and
those of `D` before `t` must appear; the others may stay as they are. Then pair, in this order,

    the ends of S before t, one insert for each missing copy, the other ends of S     with
    the ends of D before t, one removal for each surplus copy, the other ends of D

and carry out as many pairs as there are ends that must vanish, or must appear, whichever are more.
Fewer changes will not do: each change touches one copy of either side.

Line 15 of the document's Algorithm R4 counts up and down at the same end; here a count moves from
the old end to the new one.

State: as R3, and 60 bytes for each end of a row in an input.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.errors import UnknownRowError
from thalweg.model.batch import Batch
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.sorting import distinct
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import StateSize
from thalweg.operators.merging.chains import ABSENT, distinct_digests
from thalweg.operators.merging.changes import Changes
from thalweg.operators.merging.count_moves import CountMoves
from thalweg.operators.merging.end_columns import EndColumns
from thalweg.operators.merging.end_counts import EndCounts
from thalweg.operators.merging.fewest_adjusts import differences, fewest_adjusts
from thalweg.operators.merging.identity import Identity
from thalweg.operators.merging.indexed import IndexedLevel, elements_at
from thalweg.operators.merging.level import (
    Alignment,
    MergeContext,
    MergeInput,
    first_row,
    show_end,
)
from thalweg.operators.merging.settled_rows import SettledRows
from thalweg.operators.merging.slot_ranges import Slots, as_slice, listed
from thalweg.operators.merging.top_tier import TopTier
from thalweg.state.pages import Pages, read_pages

__all__ = ["CountedLevel"]

_OUTPUT, _KEPT = -1, -2
"""The numbers of tiers of counts that are no input's column: the output, and the kept rows of
inputs that have left."""


class CountedLevel(IndexedLevel):
    name = "R4"

    def __init__(self, schema: pa.Schema, identity: Identity) -> None:
        super().__init__(schema, identity)
        self.out = EndCounts()
        self.counts: list[EndCounts] = []
        """By column of an input."""
        self.kept: EndCounts | None = None
        """With `missing="keep"`: rows that inputs which have left can no longer remove."""
        self.end_pages = Pages()

    def _tiers(self) -> dict[int, EndCounts]:
        """All counts, by number of the tier."""
        kept = {} if self.kept is None else {_KEPT: self.kept}
        return {_OUTPUT: self.out, **dict(enumerate(self.counts)), **kept}

    def take_over(self, top: TopTier, settled: SettledRows, ends: EndColumns) -> None:
        """Take over the index of a merge at R3, whose ends become entries of the third tier."""
        self.top, self.settled = top, settled
        used = top.used()
        self.pages.touch(used)
        self.end_pages.touch(used)
        for _ in ends.inputs:
            self._attach()
        self._grow()
        tiers = [(self.out, ends.out), *zip(self.counts, ends.inputs, strict=True)]
        for counts, column in tiers:
            _count_ends(counts, used, column[used])
        if ends.kept is not None:
            self.kept = self._no_counts()
            _count_ends(self.kept, used, ends.kept[used])

    # ------------------------------------------------------------------------------------------
    # inputs

    def _attach(self) -> None:
        self.counts.append(self._no_counts())

    def _no_counts(self) -> EndCounts:
        """Counts of the rows of the top tier, all zero."""
        counts = EndCounts()
        counts.grow(self.top.capacity)
        return counts

    def _grow(self) -> None:
        for counts in self._tiers().values():
            counts.grow(self.top.capacity)

    def attach(self, member: MergeInput) -> None:
        while len(self.counts) <= member.column:
            self._attach()

    def detach(self, member: MergeInput, context: MergeContext) -> None:
        if context.policy.keeps_all:
            self._keep(member, context)
        self.end_pages.touch(np.flatnonzero(self.counts[member.column].total))
        self.counts[member.column] = self._no_counts()
        self.release(context)

    def _keep(self, member: MergeInput, context: MergeContext) -> None:
        counts = self.counts[member.column]
        self.kept = self._no_counts() if self.kept is None else self.kept
        used = self.top.used()
        used = used[context.is_final(member, used, self.top.start[used])]
        # of inputs that have left, the one with the most copies of a row counts
        replaced = used[counts.total[used] > self.kept.total[used]]
        self.kept.remove(replaced)
        at, end, count = counts.of(replaced)
        self.kept.add(replaced[at], end, count)

    # ------------------------------------------------------------------------------------------
    # a batch

    def update(self, member: MergeInput, batch: Batch, context: MergeContext) -> None:
        self._touched = slice(0, 0)
        arrived = len(batch)
        positions = self._not_settled(batch, context)
        batch = batch if positions is None else elements_at(batch, positions)
        if not len(batch):
            member.ignored += arrived
            return
        digests = self.identity.of_rows(batch, self.top)
        slots = self.top.find(digests)
        settled = (slots < 0) & (batch.start < context.settled_of(batch))
        unknown = slots < 0
        ignored = self._ignored(member, batch, slots, settled, context)
        slots[ignored] = -1
        fresh = np.flatnonzero(unknown & ~ignored)
        first, codes = distinct_digests(digests.take(fresh))
        self._check(member, batch, slots, fresh, codes)
        member.ignored += arrived - len(batch) + int(np.count_nonzero(settled))
        self.operations += len(batch)
        slots[fresh] = self._add(batch, digests, fresh[first], settled, context)[codes]
        moves, counts = CountMoves.of_batch(batch, slots), self.counts[member.column]
        if member.since > MIN_TIME:  # rows from before it joined are not counted
            moves = moves.without_unknown(counts)
        counts.add(moves.slots, moves.ends, moves.weights)
        self._touched = as_slice(distinct(moves.slots))
        self.end_pages.touch(self._touched)

    def _check(
        self, member: MergeInput, batch: Batch, slots: Codes, fresh: Codes, codes: Codes
    ) -> None:
        """Refuse a batch with an adjust of a row that the input does not have by then."""
        if batch.is_adjust is None or member.since > MIN_TIME:
            return
        keys = slots.copy()
        keys[fresh] = self.top.capacity + codes
        moves = CountMoves.of_batch(batch, keys)
        at = moves.first_unfounded(self.counts[member.column], self.top.capacity)
        if at >= 0:
            payload, start, end = first_row(batch, np.array([at]))
            raise UnknownRowError(
                f"merge: input {member.name!r} adjusts {payload} from {start} to {show_end(end)}, "
                "which it does not have. Insert the row first, and give the end it has now."
            )

    # ------------------------------------------------------------------------------------------
    # a promise

    def _align(self, rows: Alignment) -> Batch:
        leader, slots, context = rows.leader, listed(rows.slots), rows.context
        # ends before the output's CTI are settled, and an input that joined later may lack them
        settled = np.broadcast_to(rows.settled, len(slots))
        time = np.broadcast_to(rows.time, len(slots))
        wanted = _from(self._wanted(leader, slots, context), settled)
        shown = _from(self.out.of(slots), settled)
        self.operations += len(wanted[0]) + len(shown[0])
        free = self.top.start[slots] >= settled
        if not context.policy.keeps_all:
            context.left_out += self._left_out(leader, slots[free], context)
        plan = fewest_adjusts(len(slots), wanted, shown, time)
        legal = plan.legal(free, settled)
        if not legal.all():
            self._disagree(leader, slots[plan.row[~legal]], context)
            plan = plan.filter(legal)
        return self._carry_out(slots[plan.row], plan.end, plan.new_end)

    def _left_out(self, leader: MergeInput, slots: Codes, context: MergeContext) -> int:
        """By how many copies of these rows the leader has fewer than the input with the most."""
        most = np.max([self.counts[each.column].total[slots] for each in context.inputs], axis=0)
        return int((most - self.counts[leader.column].total[slots]).sum())

    def _row_counts(self, slots: Codes) -> Codes:
        return np.array([int(counts.total[slots].sum()) for counts in self.counts])

    def _last_ends(self, slots: Slots) -> Times:
        return _latest(self.out, listed(slots))

    def _differs(self, member: MergeInput, slots: Codes) -> tuple[Bools, Times]:
        counts = self.counts[member.column]
        differs = np.zeros(len(slots), np.bool_)
        differs[differences(counts.of(slots), self.out.of(slots))[0]] = True
        return differs, _latest(counts, slots)

    def _described(self, member: MergeInput | None, slot: Codes) -> str:
        _, ends, counts = (self.out if member is None else self.counts[member.column]).of(slot)
        shown = sorted(np.repeat(ends, counts).tolist())
        return f"the ends {', '.join(map(show_end, shown))}" if shown else "no such row"

    def _wanted(
        self, leader: MergeInput, slots: Codes, context: MergeContext
    ) -> tuple[Codes, Times, Codes]:
        if not context.policy.keeps_all:
            return self.counts[leader.column].of(slots)
        members = sorted(context.inputs, key=lambda member: -member.promise)
        choices = [self.counts[member.column] for member in members]
        choices += [] if self.kept is None else [self.kept]
        most = np.max([counts.total[slots] for counts in choices], axis=0)
        open_ = most > 0
        parts = []
        for counts in choices:  # the furthest of those that have the most rows there
            rows = np.flatnonzero(open_ & (counts.total[slots] == most))
            open_[rows] = False
            at, end, count = counts.of(slots[rows])
            parts.append((rows[at], end, count))
        return (
            np.concatenate([part[0] for part in parts]),
            np.concatenate([part[1] for part in parts]),
            np.concatenate([part[2] for part in parts]),
        )

    def _carry_out(self, slots: Codes, end: Times, new_end: Times) -> Batch:
        """Change the output as an `AdjustPlan` says: an absent end inserts a row, an absent new end
        removes it."""
        changes = Changes()
        inserts, removes = end == ABSENT, new_end == ABSENT
        adjusts, target = ~inserts, np.where(removes, self.top.start[slots], new_end)
        changes.adjust(slots[adjusts], end[adjusts], target[adjusts])
        changes.insert(slots[inserts], new_end[inserts])
        weight = np.ones(len(slots), np.int64)
        self.out.add(slots[adjusts], end[adjusts], -weight[adjusts])
        self.out.add(slots[~removes], new_end[~removes], weight[~removes])
        self.end_pages.touch(slots)
        return changes.to_batch(self.top.start, self.top.payloads.take, self.schema)

    def _forget(self, slots: Slots) -> None:
        slots = listed(slots)
        self.end_pages.touch(slots)
        for counts in self._tiers().values():
            counts.remove(slots)

    # ------------------------------------------------------------------------------------------
    # policies

    def _show(self, member: MergeInput, slots: Slots, context: MergeContext) -> Batch:
        slots = listed(slots)
        if not len(slots):
            return Batch.empty(self.schema)
        policy = context.policy
        settled = np.broadcast_to(context.settled_at(slots), len(slots))
        free = self.top.start[slots] >= settled
        if context.follows(member):
            wanted, shown = self.counts[member.column].of(slots), self.out.of(slots)
            plan = fewest_adjusts(len(slots), wanted, shown, INFINITY, exactly=True)
            legal = plan.legal(free, settled)
            if not self._may_insert(member, context):
                legal &= ~plan.inserts
            plan = plan.filter(legal)
            return self._carry_out(slots[plan.row], plan.end, plan.new_end)
        if not self._may_insert(member, context):
            return Batch.empty(self.schema)
        missing = self.counts[member.column].total[slots] - self.out.total[slots]
        if policy.insert == "share":
            members = [other.column for other in context.inputs]
            needed = int(np.ceil(policy.share * len(members)))
            ranked = np.sort([self.counts[column].total[slots] for column in members], axis=0)
            missing = np.minimum(missing, ranked[-needed] - self.out.total[slots])
        some = free & (missing > 0)
        chosen, ends = self._newest(member, slots[some], missing[some])
        return self._carry_out(chosen, np.full(len(chosen), ABSENT), ends)

    def _newest(self, member: MergeInput, slots: Codes, missing: Codes) -> tuple[Codes, Times]:
        """For each slot `missing` of the input's ends that the output lacks, the latest ones, in
        parallel columns."""
        wanted, shown = self.counts[member.column].of(slots), self.out.of(slots)
        at, end, more = differences(shown, wanted)
        surplus = more > 0
        at = np.repeat(at[surplus], more[surplus])[::-1]
        end = np.repeat(end[surplus], more[surplus])[::-1]
        # `at` descends from here on; the rank within a slot is the distance to its first entry
        first = np.ones(len(at), np.bool_)
        first[1:] = at[1:] != at[:-1]
        begins = np.maximum.accumulate(np.where(first, np.arange(len(at)), 0))
        chosen = np.arange(len(at)) - begins < missing[at]
        return slots[at[chosen]][::-1], end[chosen][::-1]

    # ------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> dict[str, Rows]:
        alive = self.top.alive
        return {
            **self.pages.snapshot(alive, lambda slots: {"rows": self._saved_rows(slots)}),
            **self.end_pages.snapshot(alive, lambda slots: {"ends": self._saved_ends(slots)}),
        }

    def _saved_rows(self, slots: Codes) -> Rows:
        rows = self.top.payloads.take(slots)
        columns = [slots, self.top.start[slots], self.top.open[slots]]
        return pa.RecordBatch.from_arrays(
            [*map(pa.array, columns), *rows.columns],
            names=["_slot", "_start", "_open", *rows.schema.names],
        )

    def _saved_ends(self, slots: Codes) -> Rows:
        parts = [(tier, *counts.of(slots)) for tier, counts in self._tiers().items()]
        columns = [
            np.concatenate([np.full(len(at), tier) for tier, at, *_ in parts]),
            np.concatenate([slots[at] for _, at, *_ in parts]),
            np.concatenate([end for *_, end, _ in parts]),
            np.concatenate([count for *_, count in parts]),
        ]
        return pa.RecordBatch.from_arrays(
            [*map(pa.array, columns)], names=["tier", "slot", "end", "count"]
        )

    def restore(self, slices: Mapping[str, Rows], columns: int, settled: int) -> None:
        while len(self.counts) < columns:
            self._attach()
        self.pages.restore(slices, "rows")
        self.end_pages.restore(slices, "ends")
        pages = read_pages(slices, "rows")
        if not pages:
            return
        slots, is_open = self._restore_rows(pages)
        tiers = self._tiers()
        for page in read_pages(slices, "ends"):
            tier, slot, end, count = (np.array(column.to_numpy()) for column in page.columns)
            for number in np.unique(tier).tolist():
                if number == _KEPT and self.kept is None:
                    self.kept = tiers[_KEPT] = self._no_counts()
                own = tier == number
                tiers[number].add(slot[own], end[own], count[own])
        self._restore_settled(slots, is_open, settled)

    def state_size(self) -> StateSize:
        counts = sum(counts.nbytes for counts in self._tiers().values())
        return StateSize(len(self.top), self.top.nbytes + self.settled.nbytes + counts)


def _count_ends(counts: EndCounts, slots: Codes, ends: Times) -> None:
    """Count the end of each row once, if it is not ABSENT."""
    there = ends != ABSENT
    counts.add(slots[there], ends[there], np.ones(int(there.sum()), np.int64))


def _latest(counts: EndCounts, slots: Codes) -> Times:
    """The last end of each row; ABSENT where it has none."""
    at, end, _ = counts.of(slots)
    latest = np.full(len(slots), ABSENT)
    np.maximum.at(latest, at, end)
    return latest


def _from(counted: tuple[Codes, Times, Codes], time: Times) -> tuple[Codes, Times, Codes]:
    """The entries whose end is at or after the time of their row."""
    row, end, count = counted
    later = end >= time[row]
    return (row, end, count) if later.all() else (row[later], end[later], count[later])
