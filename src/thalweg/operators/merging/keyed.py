"""R3: any order and any elements, where payload and start are a key of every input (LM-R3+).

    in2t    top tier     every live row once, by payload and start (`top_tier`)
            second tier  by input the row's end there, and the end that the output has; columns

Meaning: the table of the input that leads (see `advance`), or with `missing="keep"` the union of
the tables of all inputs. An insert of a new row is shown, that is inserted into the output, as the
policy of location 2 says; an adjust changes only its input's end, and by the policy of location 1
that of the output. Before a CTI `t` becomes the output's, every row that starts before `t` is made
to agree with the input that made it, where the output could not follow any more:

    the input lacks the row, the output has it      the row is removed
    the input has the row, the output lacks it      it is inserted
    their ends differ, and one of them is before t  the output takes the end of the input

Rows that end before `t` are dropped: nothing can change them. A row that starts before the output's
CTI and is not held was settled earlier, or the leader lacked it; it is ignored and counted. Nulls
are values like others. An adjust of a row that the input does not have is refused.

Identity by group: with `groups`, rows of the same group and start are versions of one answer. The
output has at most one of them at the end of every batch; policies choose among versions instead of
ends.

State: rows that no CTI of the output has passed, each once for all inputs, and 8 bytes for each
input; a table of digests, 28 bytes for each place.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.errors import UnknownRowError
from thalweg.model.batch import Batch
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.sorting import distinct
from thalweg.model.time import MIN_TIME, Times
from thalweg.operators.base import StateSize
from thalweg.operators.merging.answers import Answers
from thalweg.operators.merging.chains import (
    ABSENT,
    chain,
    distinct_digests,
    expected_ends,
    left_ends,
)
from thalweg.operators.merging.changes import Changes
from thalweg.operators.merging.counted import CountedLevel
from thalweg.operators.merging.end_columns import EndColumns
from thalweg.operators.merging.identity import Identity
from thalweg.operators.merging.indexed import IndexedLevel, elements_at
from thalweg.operators.merging.level import (
    Alignment,
    BrokenLevelError,
    MergeContext,
    MergeInput,
    first_row,
    show_end,
)
from thalweg.operators.merging.repeated_batches import RepeatedBatches
from thalweg.operators.merging.slot_ranges import (
    Slots,
    as_slice,
    count_of,
    listed,
    part_of,
    slot_at,
    where,
)
from thalweg.state.pages import read_pages

__all__ = ["KeyedLevel"]


class KeyedLevel(IndexedLevel):
    name = "R3"

    def __init__(self, schema: pa.Schema, identity: Identity) -> None:
        super().__init__(schema, identity)
        self.ends = EndColumns(self.top.capacity)
        self.answers = Answers() if identity.groups else None
        self._repeats = RepeatedBatches()

    def climb(self) -> CountedLevel:
        level = CountedLevel(self.schema, self.identity.without_groups())
        level.take_over(self.top, self.settled, self.ends)
        return level

    # ------------------------------------------------------------------------------------------
    # inputs

    def attach(self, member: MergeInput) -> None:
        self.ends.attach(member.column)

    def detach(self, member: MergeInput, context: MergeContext) -> None:
        column = self.ends.inputs[member.column]
        if context.policy.keeps_all:  # rows that this input could no longer have removed stay
            slots = self.ends.not_kept(member.column)
            slots = slots[context.is_final(member, slots, self.top.start[slots])]
            self.ends.keep(slots, column[slots])
        self.pages.touch(np.flatnonzero(column != ABSENT))
        column[:] = ABSENT
        self._repeats.leave(member.column)
        self.release(context)

    # ------------------------------------------------------------------------------------------
    # a batch

    def update(self, member: MergeInput, batch: Batch, context: MergeContext) -> None:
        self._touched = slice(0, 0)
        positions = self._not_settled(batch, context)
        if not len(batch) or (positions is not None and not count_of(positions)):
            member.ignored += len(batch)
            return
        slots = self._repeated(member, batch, positions, context)
        if slots is not None:
            ends = left_ends(batch)
            self._take_ends(member, slots, ends if positions is None else ends[positions])
        else:
            unsettled = batch if positions is None else elements_at(batch, positions)
            self._add_or_find(member, unsettled, context)
        count = len(batch) if positions is None else count_of(positions)
        member.ignored += len(batch) - count
        self.operations += count

    def _add_or_find(self, member: MergeInput, batch: Batch, context: MergeContext) -> None:
        """Record elements that do not repeat those of another input."""
        if not self._after_all(batch, context):
            self._find_by_digest(member, batch, context)
            return
        slots = self.top.add_after_all(batch.payload, batch.start)
        self._note_added(slots, batch.payload, batch.start, context)
        self._take_ends(member, slots, left_ends(batch))

    def _find_by_digest(self, member: MergeInput, batch: Batch, context: MergeContext) -> None:
        """Record elements of any kind, whose rows are found by their digests."""
        digests = self.identity.of_rows(batch, self.top)
        slots = self.top.find(digests)
        unknown = slots < 0
        settled = unknown & (batch.start < context.settled_of(batch))
        fresh = np.flatnonzero(unknown)
        which = np.arange(len(batch))
        ignored = self._ignored(member, batch, slots, settled, context)
        if ignored.any():
            which = np.flatnonzero(~ignored)
            fresh = np.flatnonzero(unknown & ~ignored)
        first, codes = distinct_digests(digests.take(fresh))
        keys = slots.copy()
        keys[fresh] = self.top.capacity + codes
        current = np.full(len(batch), ABSENT)
        found = np.flatnonzero(~unknown)
        current[found] = self.ends.inputs[member.column, slots[found]]
        after = left_ends(batch)
        linked = chain(keys[which], current[which], after[which], self.top.capacity + len(first))
        self._check(member, batch, which, linked.before, expected_ends(batch)[which])
        member.ignored += int(np.count_nonzero(settled))
        slots[fresh] = self._add(batch, digests, fresh[first], settled, context)[codes]
        last = which[linked.last]
        self._take_ends(member, slots[last], after[last])

    def _take_ends(self, member: MergeInput, slots: Slots, ends: Times) -> None:
        self._touched = slots = as_slice(slots)
        self.ends.inputs[member.column, slots] = ends
        self.pages.touch(slots)
        if len(ends):
            self._repeats.sent(self.top, member.column, slot_at(slots, len(ends) - 1))

    def _after_all(self, batch: Batch, context: MergeContext) -> bool:
        """Whether all rows of a batch start, in order, after every row that was ever held and
        after what the output has settled: they are new, and differ from each other."""
        if not batch.insert_only or self.identity.tolerance or context.groups.promised:
            return False
        start = batch.start
        if int(start[0]) <= self.top.highest or int(start[0]) < context.settled:
            return False
        return bool((start[1:] > start[:-1]).all())

    def _repeated(
        self, member: MergeInput, batch: Batch, positions: Slots | None, context: MergeContext
    ) -> Slots | None:
        """The slots of the inserts at some positions, if they repeat rows of another input and are
        found by comparing; None where rows must be found by digest."""
        if not batch.insert_only or self.identity.tolerance or context.policy.compares:
            return None
        start = batch.start if positions is None else batch.start[positions]
        slots = self._repeats.find(self.top, member.column, batch.payload, start, positions)
        if slots is None or int(start.min()) > member.highest_start:
            return slots  # the input has sent no row that starts so late
        return slots if (self.ends.inputs[member.column, slots] == ABSENT).all() else None

    def _check(
        self, member: MergeInput, batch: Batch, which: Codes, before: Times, expected: Times
    ) -> None:
        wrong = before != expected
        if not wrong.any():
            return
        doubled = wrong & (expected == ABSENT)
        if doubled.any():
            payload, start, end = first_row(batch, which[doubled])
            raise BrokenLevelError(
                f"merge: input {member.name!r} has {payload} from {start} twice (the second to "
                f"{show_end(end)}); at {self.name} payload and start are a key."
            )
        if member.since == MIN_TIME:
            payload, start, end = first_row(batch, which[wrong])
            has = show_end(before[wrong][0])
            raise UnknownRowError(
                f"merge: input {member.name!r} adjusts {payload} from {start} to {show_end(end)}, "
                f"but its end there is {has}. Insert the row first, and give the end it has now."
            )

    def _grow(self) -> None:
        self.ends.grow(self.top.capacity)

    def _added(self, slots: Slots, rows: Rows, start: Times) -> None:
        self._repeats.added(slot_at(slots, 0))
        if self.answers is not None:
            self.answers.add(listed(slots), self.identity.of_groups(rows, start))

    # ------------------------------------------------------------------------------------------
    # a promise

    def _align(self, rows: Alignment) -> Batch:
        leader, slots, context = rows.leader, rows.slots, rows.context
        time, settled = rows.time, rows.settled
        out_end, in_end = self.ends.out[slots], self._wanted(leader, slots, context)
        other = where((in_end != out_end) | (in_end == ABSENT))
        if not count_of(other):
            return Batch.empty(self.schema)
        these, out_end, in_end = as_slice(part_of(slots, other)), out_end[other], in_end[other]
        time = time[other] if isinstance(time, np.ndarray) else time
        settled = settled[other] if isinstance(settled, np.ndarray) else settled
        free = self.top.start[these] >= settled
        have, shown = in_end != ABSENT, out_end != ABSENT
        if self.answers is None and not shown.any() and have.all() and free.all():
            return self._insert_all(these, in_end)
        slots = listed(these)
        if self.answers is None:  # by group, another payload is another version of the row
            context.left_out += self._left_out(slots[~have & free], context)
        vanish, appear = shown & ~have & free, have & ~shown & free
        move = have & shown & (in_end != out_end) & ((in_end < time) | (out_end < time))
        late = move & (in_end < settled)
        lost = shown & ~have & ~free
        if late.any() or lost.any():
            self._disagree(leader, slots[late | lost], context)
            move &= ~late
        changes = Changes()
        self._remove(changes, slots[vanish])
        self._move(changes, slots[move], in_end[move])
        self._insert(changes, slots[appear], in_end[appear])
        return changes.to_batch(self.top.start, self.top.payloads.take, self.schema)

    def _insert_all(self, slots: Slots, ends: Times) -> Batch:
        """Insert rows into the output where nothing else changes."""
        self.ends.out[slots] = ends
        self.pages.touch(slots)
        return Batch(self.top.payloads.take(slots), self.top.start[slots].copy(), ends.copy())

    def _last_ends(self, slots: Slots) -> Times:
        return self.ends.out[slots]

    def _differs(self, member: MergeInput, slots: Codes) -> tuple[Bools, Times]:
        own = self.ends.inputs[member.column, slots]
        return own != self.ends.out[slots], own

    def _described(self, member: MergeInput | None, slot: Codes) -> str:
        ends = self.ends.out if member is None else self.ends.inputs[member.column]
        return f"the end {show_end(ends[slot[0]])}" if ends[slot[0]] != ABSENT else "no such row"

    def _wanted(self, leader: MergeInput, slots: Slots, context: MergeContext) -> Times:
        """The end that the output should have for each row: that in the leader, or with
        `missing="keep"` in the furthest input that has the row."""
        if not context.policy.keeps_all:
            led: Times = self.ends.inputs[leader.column, slots]
            return led
        furthest = sorted(context.inputs, key=lambda member: -member.promise)
        return self.ends.first([member.column for member in furthest], listed(slots))

    def _row_counts(self, slots: Codes) -> Codes:
        counts: Codes = (self.ends.inputs[:, slots] != ABSENT).sum(axis=1)
        return counts

    def _left_out(self, slots: Codes, context: MergeContext) -> int:
        """How many of these rows, all of which the leader lacks, some input has."""
        return int(np.count_nonzero(self._inputs_with(slots, context))) if len(slots) else 0

    def _inputs_with(self, slots: Codes, context: MergeContext) -> Codes:
        """How many inputs have each of these rows."""
        return self.ends.count([member.column for member in context.inputs], slots)

    def _forget(self, slots: Slots) -> None:
        self.ends.forget(slots)
        if self.answers is not None:
            self.answers.remove(listed(slots))

    # ------------------------------------------------------------------------------------------
    # policies

    def _show(self, member: MergeInput, slots: Slots, context: MergeContext) -> Batch:
        follows = context.follows(member)
        if not follows:  # rows of the output stay as they are
            slots = part_of(slots, where(self.ends.out[slots] == ABSENT))
        slots = listed(slots)
        if not len(slots):
            return Batch.empty(self.schema)
        end, out_end = self.ends.inputs[member.column, slots], self.ends.out[slots]
        have, shown = end != ABSENT, out_end != ABSENT
        settled = context.settled_at(slots)
        free = self.top.start[slots] >= settled
        appear = self._allowed(member, slots, have & ~shown & free, context)
        vanish = shown & ~have & free if follows else np.zeros(len(slots), np.bool_)
        removed = slots[vanish]
        if self.answers is not None:
            newest = self.answers.newest(slots, have)
            current = self.answers.shown(slots)
            appear &= newest & (current < 0)
            if follows:
                swap = newest & free & (current >= 0) & (current != slots)
                removed = distinct(np.concatenate([removed, current[swap]]))
                appear |= swap
        changes = Changes()
        self._remove(changes, removed)
        if follows:
            move = have & shown & (end != out_end) & (end >= settled) & (out_end >= settled)
            self._move(changes, slots[move], end[move])
        self._insert(changes, slots[appear], end[appear])
        return changes.to_batch(self.top.start, self.top.payloads.take, self.schema)

    def _allowed(
        self, member: MergeInput, slots: Codes, appear: Bools, context: MergeContext
    ) -> Bools:
        """Which of the rows that an input could insert the policy of location 2 lets it insert."""
        if not appear.any():
            return appear
        if not self._may_insert(member, context):
            return np.zeros(len(slots), np.bool_)
        if context.policy.insert == "share":
            needed = context.policy.share * len(context.inputs)
            appear &= self._inputs_with(slots, context) >= needed
        return appear

    # ------------------------------------------------------------------------------------------
    # changes of the output

    def _remove(self, changes: Changes, slots: Codes) -> None:
        changes.adjust(slots, self.ends.out[slots], self.top.start[slots])
        self.ends.out[slots] = ABSENT
        self.pages.touch(slots)
        if self.answers is not None:
            self.answers.take_back(slots)

    def _move(self, changes: Changes, slots: Codes, ends: Times) -> None:
        changes.adjust(slots, self.ends.out[slots], ends)
        self.ends.out[slots] = ends
        self.pages.touch(slots)

    def _insert(self, changes: Changes, slots: Codes, ends: Times) -> None:
        changes.insert(slots, ends)
        self.ends.out[slots] = ends
        self.pages.touch(slots)
        if self.answers is not None:
            self.answers.show(slots)

    # ------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> dict[str, Rows]:
        return self.pages.snapshot(
            self.top.alive, lambda slots: {"rows": self.ends.saved(slots, self.top)}
        )

    def restore(self, slices: Mapping[str, Rows], columns: int, settled: int) -> None:
        self.ends.attach(columns - 1)
        self.pages.restore(slices, "rows")
        pages = read_pages(slices, "rows")
        if not pages:
            return
        slots, is_open = self._restore_rows(pages)
        self.ends.restore(pages, len(self.schema))
        self._restore_settled(slots, is_open, settled)
        if self.answers is not None:
            self.answers.show(slots[self.ends.out[slots] != ABSENT])

    def state_size(self) -> StateSize:
        bytes_ = self.top.nbytes + self.ends.nbytes + self.settled.nbytes
        bytes_ += 0 if self.answers is None else self.answers.nbytes
        return StateSize(len(self.top), bytes_)
