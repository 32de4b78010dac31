"""The common part of R3 and R4: an index of the live rows, promises for all rows and for groups,
and settled rows that wait for slower inputs to confirm them (see `settled_rows`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.digests import Digests
from thalweg.model.progress import Scope
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, take_rows
from thalweg.model.sorting import distinct
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times
from thalweg.operators.merging.chains import ABSENT
from thalweg.operators.merging.identity import Identity
from thalweg.operators.merging.level import Alarm, Alignment, MergeContext, MergeInput, MergeLevel
from thalweg.operators.merging.settled_rows import SettledRows
from thalweg.operators.merging.slot_ranges import (
    Slots,
    as_slice,
    count_of,
    joined,
    listed,
    part_of,
    where,
)
from thalweg.operators.merging.top_tier import TopTier
from thalweg.state.pages import Pages

__all__ = ["IndexedLevel", "elements_at"]


class IndexedLevel(MergeLevel):
    """A level that holds every live row once."""

    def __init__(self, schema: pa.Schema, identity: Identity) -> None:
        self.schema, self.identity = schema, identity
        self.top = TopTier(schema)
        self.settled = SettledRows()
        self.pages = Pages()
        self._touched: Slots = slice(0, 0)
        """The rows that the last batch of an input has changed."""

    def group_rows(self) -> TopTier:
        return self.top

    # ------------------------------------------------------------------------------------------
    # rows

    def _add(
        self,
        batch: Batch,
        digests: Digests,
        positions: Codes,
        settled: Bools,
        context: MergeContext,
    ) -> Codes:
        """Add the rows of a batch at some positions; returns their slots. Rows that are `settled`
        already are kept only to compare the inputs."""
        slots = np.empty(len(positions), np.int64)
        is_late = settled[positions]
        for late in (False, True):
            which = np.flatnonzero(is_late == late)
            if not len(which):
                continue
            taken = positions[which]
            rows, start = take_rows(batch.payload, taken), batch.start[taken]
            add = self.top.add_settled if late else self.top.add
            slots[which] = added = add(digests.take(taken), rows, start)
            if late:
                self.settled.add(added, start)
            self._note_added(added, rows, start, context)
        return slots

    def _note_added(self, slots: Slots, rows: Rows, start: Times, context: MergeContext) -> None:
        """Update columns, groups and pages for rows that were added to the top tier."""
        self._grow()
        self._added(slots, rows, start)
        if context.groups:
            context.groups.note(listed(slots), rows, self.top)
        self.pages.touch(as_slice(slots))

    def _not_settled(self, batch: Batch, context: MergeContext) -> Slots | None:
        """The positions of the elements that may be about rows that are held; None for all. The
        others start before every row that is held, so that an input far behind costs little."""
        if context.policy.compares or not len(batch):
            return None
        first = int(batch.start.min())
        if first >= context.settled or first >= self.top.oldest:
            return None
        return where(batch.start >= min(self.top.oldest, context.settled))

    def _ignored(
        self, member: MergeInput, batch: Batch, slots: Codes, settled: Bools, context: MergeContext
    ) -> Bools:
        """Which elements change nothing: those about settled rows, unless these are compared.
        `settled` marks rows that were dropped. An input is not compared about rows from before it
        joined, some of which were dropped."""
        if not context.policy.compares:
            return settled
        closed = (slots >= 0) & ~self.top.open[slots]
        return np.asarray((settled | closed) & (batch.start < member.compared_from))

    @abstractmethod
    def _grow(self) -> None:
        """Make columns by slot as large as the top tier."""

    def _added(self, slots: Slots, rows: Rows, start: Times) -> None:
        """A hook for rows that were added."""
        return

    # ------------------------------------------------------------------------------------------
    # policies

    def show(self, member: MergeInput, context: MergeContext) -> Batch:
        touched, self._touched = self._touched, slice(0, 0)
        there = self.top.alive[touched]
        return self._show(
            member, touched if there.all() else part_of(touched, where(there)), context
        )

    def _may_insert(self, member: MergeInput, context: MergeContext) -> bool:
        """Whether the policy of location 2 lets an input insert rows into the output. With "share"
        it depends on the row, too."""
        match context.policy.insert:
            case "leader":
                return member is context.leader
            case "half frozen":
                return False  # `advance` inserts a row when it gets half frozen
            case "highest start":
                return member.highest_start >= max(each.highest_start for each in context.inputs)
            case "most unfrozen":
                counts = self._row_counts(self.top.unfrozen())
                return bool(counts[member.column] >= counts.max())
            case "first seen" | "share":
                return True

    @abstractmethod
    def _row_counts(self, slots: Codes) -> Codes:
        """By column: how many of these rows its input has."""

    def refollow(self, leader: MergeInput, context: MergeContext) -> Batch | None:
        if "leader" not in (context.policy.insert, context.policy.revise):
            return None
        slots = joined([self.top.half, self.top.unfrozen()])
        self.operations += count_of(slots)
        return self._show(leader, slots, context)

    @abstractmethod
    def _show(self, member: MergeInput, slots: Slots, context: MergeContext) -> Batch:
        """The changes that policies require for some rows of an input."""

    # ------------------------------------------------------------------------------------------
    # promises

    def advance(self, leader: MergeInput, time: int, context: MergeContext) -> Batch:
        slots = self.top.reach(time)
        self.operations += count_of(slots)
        if not count_of(slots):
            return Batch.empty(self.schema)
        settled = context.settled_at(slots)
        if isinstance(settled, int):
            batch = self._align(Alignment(leader, slots, time, settled, context))
            final = self._last_ends(slots) < time
        else:  # a group may have promised more, as its own leader has it
            behind = settled < time
            rows = Alignment(leader, part_of(slots, where(behind)), time, settled[behind], context)
            batch = self._align(rows)
            final = self._last_ends(slots) < np.maximum(settled, time)
        if time == INFINITY:
            final = np.ones(count_of(slots), np.bool_)
        self._retire(self.top.remove_half(final), context)
        return batch

    def advance_groups(
        self, leader: MergeInput, times: Mapping[Scope, int], context: MergeContext
    ) -> Batch:
        slots, limit = context.groups.rows_before(times, self.top)
        self.operations += len(slots)
        if not len(slots):
            return Batch.empty(self.schema)
        settled = context.groups.at(slots, context.settled)
        batch = self._align(Alignment(leader, slots, limit, settled, context))
        final = slots[(self._last_ends(slots) < limit) | (limit == INFINITY)]
        self.top.settle(final)
        self._retire(final, context)
        return batch

    @abstractmethod
    def _align(self, rows: Alignment) -> Batch:
        """The changes after which the output may promise `rows.time` about these rows."""

    @abstractmethod
    def _last_ends(self, slots: Slots) -> Times:
        """The last end of each row in the output; ABSENT where the output lacks the row."""

    # ------------------------------------------------------------------------------------------
    # settled rows

    def _retire(self, slots: Slots, context: MergeContext) -> None:
        """Drop settled rows, or keep them until every input has confirmed them."""
        if not context.policy.compares or not count_of(slots):
            self._drop(slots)
            return
        slots = listed(slots)
        keys = self._settled_keys(slots)
        self.settled.add(slots, keys)
        self.pages.touch(slots)
        for member in context.inputs:
            self._judge(member, slots[keys < member.cti], context)
        self.release(context)

    def _settled_keys(self, slots: Codes) -> Times:
        """For each row the time that an input must promise to confirm it (see `settled_rows`)."""
        last = self._last_ends(slots)
        return np.minimum(np.where(last == ABSENT, self.top.start[slots], last), MAX_TIME)

    def compare(self, member: MergeInput, since: int, context: MergeContext) -> None:
        if not len(self.settled):
            return
        self._judge(member, self.settled.between(since, member.cti), context)
        self.release(context)

    def release(self, context: MergeContext) -> None:
        if len(self.settled):
            slowest = min((member.promise for member in context.inputs), default=INFINITY)
            self._drop(self.settled.take_before(slowest))

    def _drop(self, slots: Slots) -> None:
        if count_of(slots):
            slots = as_slice(slots)
            self._forget(slots)
            self.pages.touch(slots)
            self.top.remove(slots)

    @abstractmethod
    def _forget(self, slots: Slots) -> None:
        """Clear the columns of rows that are dropped."""

    def _judge(self, member: MergeInput, slots: Codes, context: MergeContext) -> None:
        """Note an alarm if an input contradicts these settled rows."""
        if not len(slots):
            return
        self.operations += len(slots)
        differs, own = self._differs(member, slots)
        differs &= self.top.start[slots] >= member.compared_from
        if context.policy.keeps_all:
            differs &= own != ABSENT
        if member.since > MIN_TIME:
            differs &= np.maximum(self._last_ends(slots), own) >= member.since
        if not differs.any():
            return
        slot = slots[differs][:1]
        last = int(self._last_ends(slot)[0])
        start = int(self.top.start[slot[0]])
        other = context.settled_by(start if last == ABSENT else last)
        payload = self.top.payloads.take(slot).to_pylist()[0]
        text = (
            f"merge: inputs {member.name!r} and {other!r} disagree about {payload} from {start}: "
            f"{member.name!r} has {self._described(member, slot)}, and {other!r} has settled "
            f"{self._described(None, slot)} ({int(differs.sum())} rows in all)."
        )
        context.alarms.append(Alarm("disagreement", member.name, other, payload, start, text))

    def _disagree(self, leader: MergeInput, slots: Codes, context: MergeContext) -> None:
        """Note an alarm: the leader contradicts these settled rows."""
        slots = distinct(slots)
        slot = slots[:1]
        row = self.top.payloads.take(slot).to_pylist()[0], int(self.top.start[slot[0]])
        agreeing = [
            member
            for member in context.inputs
            if member is not leader and not self._differs(member, slot)[0][0]
        ]
        ends = (
            f"{leader.name!r} has {self._described(leader, slot)}, the output "
            f"{self._described(None, slot)}"
        )
        context.disagreement(leader, agreeing, row, ends, len(slots))

    @abstractmethod
    def _differs(self, member: MergeInput, slots: Codes) -> tuple[Bools, Times]:
        """Where an input and the output differ, and the last end of each row in the input."""

    @abstractmethod
    def _described(self, member: MergeInput | None, slot: Codes) -> str:
        """A description of the ends of a row in an input, or in the output (None)."""

    # ------------------------------------------------------------------------------------------
    # state

    def _restore_rows(self, pages: Sequence[Rows]) -> tuple[Codes, Bools]:
        """Fill the empty top tier from saved pages; returns the slots, and which rows are open. The
        first columns of a page are slot, start and `open`, the last ones the payload."""
        width = len(self.schema)
        parts = [
            pa.RecordBatch.from_arrays(page.columns[-width:], schema=self.schema) for page in pages
        ]
        payload = concat_rows(parts, self.schema)
        slots, start, is_open = (
            np.concatenate([page.column(at).to_numpy(zero_copy_only=False) for page in pages])
            for at in range(3)
        )
        batch = Batch(payload, start, start)
        self.top.restore(slots, self.identity.of_rows(batch, self.top), payload, start)
        self._grow()
        self._added(slots, payload, start)
        return slots, is_open

    def _restore_settled(self, slots: Codes, is_open: Bools, settled: int) -> None:
        """Queue the open rows, for an output whose CTI was `settled`; the others wait to be
        confirmed."""
        self.top.open[slots] = is_open
        self.top.queue(slots[is_open])
        self.top.reach(settled)
        late = slots[~is_open]
        self.settled.add(late, self._settled_keys(late))


def elements_at(batch: Batch, positions: Slots) -> Batch:
    """The elements at some positions; the progress stays."""
    if isinstance(positions, slice):
        return batch.between(positions.start, positions.stop)
    return batch.take(positions)
