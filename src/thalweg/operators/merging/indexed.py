"""What R3 and R4 share: an index of the live rows, promises for all and for groups, and settled
rows that wait for slower inputs to confirm them (see `settled_rows`)."""

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
from thalweg.operators.merging.level import Alarm, Alignment, MergeInput, MergeLevel, Outlook
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
        """What the last batch of an input is about."""

    def group_rows(self) -> TopTier:
        return self.top

    # ------------------------------------------------------------------------------------------
    # rows

    def _add(
        self, batch: Batch, digests: Digests, positions: Codes, settled: Bools, outlook: Outlook
    ) -> Codes:
        """Slots for the rows of a batch at some positions, which are not there yet; of those that
        are `settled` only whether the inputs agree is of interest."""
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
            self._note_added(added, rows, start, outlook)
        return slots

    def _note_added(self, slots: Slots, rows: Rows, start: Times, outlook: Outlook) -> None:
        """Rows are in the top tier now: make room for them, and whatever else follows."""
        self._grow()
        self._added(slots, rows, start)
        if outlook.groups:
            outlook.groups.note(listed(slots), rows, self.top)
        self.pages.touch(as_slice(slots))

    def _not_settled(self, batch: Batch, outlook: Outlook) -> Slots | None:
        """The positions of elements about rows that do not start before every row that is held;
        None for all. The others are about settled rows and need not be looked for, so that an
        input that lags far behind costs little."""
        if outlook.policy.compares or not len(batch):
            return None
        first = int(batch.start.min())
        if first >= outlook.settled or first >= self.top.oldest:
            return None
        return where(batch.start >= min(self.top.oldest, outlook.settled))

    def _ignored(
        self, member: MergeInput, batch: Batch, slots: Codes, settled: Bools, outlook: Outlook
    ) -> Bools:
        """Elements that change nothing: about rows that the output has settled, unless these are
        compared. `settled` are rows that are not there; an input that joined later is not
        compared about rows from before, of which some were dropped."""
        if not outlook.policy.compares:
            return settled
        closed = (slots >= 0) & ~self.top.open[slots]
        return np.asarray((settled | closed) & (batch.start < member.compared_from))

    @abstractmethod
    def _grow(self) -> None:
        """Make columns by slot as large as the top tier."""

    def _added(self, slots: Slots, rows: Rows, start: Times) -> None:
        """Rows are new."""
        return

    # ------------------------------------------------------------------------------------------
    # policies

    def show(self, member: MergeInput, outlook: Outlook) -> Batch:
        touched, self._touched = self._touched, slice(0, 0)
        there = self.top.alive[touched]
        return self._show(
            member, touched if there.all() else part_of(touched, where(there)), outlook
        )

    def _may_insert(self, member: MergeInput, outlook: Outlook) -> bool:
        """Whether the policy of location 2 lets an input show new rows. With "share" it depends on
        the row, too."""
        match outlook.policy.insert:
            case "leader":
                return member is outlook.leader
            case "half frozen":
                return False  # `advance` shows a row when it gets half frozen
            case "highest start":
                return member.highest_start >= max(each.highest_start for each in outlook.inputs)
            case "most unfrozen":
                counts = self._row_counts(self.top.unfrozen())
                return bool(counts[member.column] >= counts.max())
            case "first seen" | "share":
                return True

    @abstractmethod
    def _row_counts(self, slots: Codes) -> Codes:
        """By column of an input: how many rows it has in these slots."""

    def refollow(self, leader: MergeInput, outlook: Outlook) -> Batch | None:
        if "leader" not in (outlook.policy.insert, outlook.policy.revise):
            return None
        slots = joined([self.top.half, self.top.unfrozen()])
        self.operations += count_of(slots)
        return self._show(leader, slots, outlook)

    @abstractmethod
    def _show(self, member: MergeInput, slots: Slots, outlook: Outlook) -> Batch:
        """The changes that policies require for some rows of an input."""

    # ------------------------------------------------------------------------------------------
    # promises

    def advance(self, leader: MergeInput, time: int, outlook: Outlook) -> Batch:
        slots = self.top.reach(time)
        self.operations += count_of(slots)
        if not count_of(slots):
            return Batch.empty(self.schema)
        settled = outlook.settled_at(slots)
        if isinstance(settled, int):
            batch = self._align(Alignment(leader, slots, time, settled, outlook))
            final = self._last_ends(slots) < time
        else:  # a group may have promised more, as its own leader has it
            behind = settled < time
            rows = Alignment(leader, part_of(slots, where(behind)), time, settled[behind], outlook)
            batch = self._align(rows)
            final = self._last_ends(slots) < np.maximum(settled, time)
        if time == INFINITY:
            final = np.ones(count_of(slots), np.bool_)
        self._retire(self.top.remove_half(final), outlook)
        return batch

    def advance_groups(
        self, leader: MergeInput, times: Mapping[Scope, int], outlook: Outlook
    ) -> Batch:
        slots, limit = outlook.groups.rows_before(times, self.top)
        self.operations += len(slots)
        if not len(slots):
            return Batch.empty(self.schema)
        settled = outlook.groups.at(slots, outlook.settled)
        batch = self._align(Alignment(leader, slots, limit, settled, outlook))
        final = slots[(self._last_ends(slots) < limit) | (limit == INFINITY)]
        self.top.settle(final)
        self._retire(final, outlook)
        return batch

    @abstractmethod
    def _align(self, rows: Alignment) -> Batch:
        """The changes after which the output may promise the time about these rows."""

    @abstractmethod
    def _last_ends(self, slots: Slots) -> Times:
        """The last end that the output has of each row; ABSENT where it has none."""

    # ------------------------------------------------------------------------------------------
    # settled rows

    def _retire(self, slots: Slots, outlook: Outlook) -> None:
        """Rows are settled: they are dropped, or wait until every input has confirmed them."""
        if not outlook.policy.compares or not count_of(slots):
            self._drop(slots)
            return
        slots = listed(slots)
        keys = self._settled_keys(slots)
        self.settled.add(slots, keys)
        self.pages.touch(slots)
        for member in outlook.inputs:
            self._judge(member, slots[keys < member.cti], outlook)
        self.release(outlook)

    def _settled_keys(self, slots: Codes) -> Times:
        """The times beyond which an input has confirmed each of these rows."""
        last = self._last_ends(slots)
        return np.minimum(np.where(last == ABSENT, self.top.start[slots], last), MAX_TIME)

    def compare(self, member: MergeInput, since: int, outlook: Outlook) -> None:
        if not len(self.settled):
            return
        self._judge(member, self.settled.between(since, member.cti), outlook)
        self.release(outlook)

    def release(self, outlook: Outlook) -> None:
        if len(self.settled):
            slowest = min((member.promise for member in outlook.inputs), default=INFINITY)
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

    def _judge(self, member: MergeInput, slots: Codes, outlook: Outlook) -> None:
        """Alarm where an input has something else than what is settled."""
        if not len(slots):
            return
        self.operations += len(slots)
        differs, own = self._differs(member, slots)
        differs &= self.top.start[slots] >= member.compared_from
        if outlook.policy.keeps_all:
            differs &= own != ABSENT
        if member.since > MIN_TIME:
            differs &= np.maximum(self._last_ends(slots), own) >= member.since
        if not differs.any():
            return
        slot = slots[differs][:1]
        last = int(self._last_ends(slot)[0])
        start = int(self.top.start[slot[0]])
        other = outlook.settled_by(start if last == ABSENT else last)
        payload = self.top.payloads.take(slot).to_pylist()[0]
        text = (
            f"merge: inputs {member.name!r} and {other!r} disagree about {payload} from {start}: "
            f"{member.name!r} has {self._described(member, slot)}, and {other!r} has settled "
            f"{self._described(None, slot)} ({int(differs.sum())} rows in all)."
        )
        outlook.alarms.append(Alarm("disagreement", member.name, other, payload, start, text))

    def _disagree(self, leader: MergeInput, slots: Codes, outlook: Outlook) -> None:
        """Alarm that the leader differs about rows that are settled."""
        slots = distinct(slots)
        slot = slots[:1]
        row = self.top.payloads.take(slot).to_pylist()[0], int(self.top.start[slot[0]])
        agreeing = [
            member
            for member in outlook.inputs
            if member is not leader and not self._differs(member, slot)[0][0]
        ]
        ends = (
            f"{leader.name!r} has {self._described(leader, slot)}, the output "
            f"{self._described(None, slot)}"
        )
        outlook.disagreement(leader, agreeing, row, ends, len(slots))

    @abstractmethod
    def _differs(self, member: MergeInput, slots: Codes) -> tuple[Bools, Times]:
        """Where an input and the output differ, and the last end that the input has."""

    @abstractmethod
    def _described(self, member: MergeInput | None, slot: Codes) -> str:
        """In words: the ends of a row in an input, or in the output."""

    # ------------------------------------------------------------------------------------------
    # state

    def _restore_rows(self, pages: Sequence[Rows]) -> tuple[Codes, Bools]:
        """Put the rows of saved pages, which begin with slot, start and whether the row is open and
        end with the payload, into the empty top tier: their slots, and which are open."""
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
        """Queue the rows that are open, up to what the output had settled; the others wait to be
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
