"""R3: any order and any elements, where payload and start are a key of every input (LM-R3+).

    in2t    top tier     every live row once, by payload and start (`top_tier`)
            second tier  by input the row's end there, and the end that the output has; columns

Meaning: the table of the input that leads (see `advance`), or with `missing="keep"` the union of
the tables of all inputs. An insert of a row that is not known is shown (policy of location 2); an
adjust changes only what is known of its input (location 1); a CTI `t` that becomes the output's
first brings every row that starts before `t` in line with the input that made it, where the output
could not follow any more:

    the input lacks the row, the output has it      the row is removed
    the input has the row, the output lacks it      it is inserted
    their ends differ, and one of them is before t  the output takes the end of the input

Rows that end before `t` are dropped: nobody can change them. A row that starts before the output's
CTI and is not known was settled earlier, or the input that led did not have it; it is ignored and
counted. Nulls are values like others. An adjust of a row that the input does not have is refused.

Identity by group: with `groups`, rows of the same group and start are versions of one answer. The
output has at most one of them at the end of every batch; policies choose among versions instead of
ends.

State: rows that no CTI of the output has passed, each once for all inputs, 8 bytes an input; a
table of digests, 28 bytes a place.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.errors import UnknownRowError
from thalweg.model.batch import Batch
from thalweg.model.digests import Digests
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import StateSize
from thalweg.operators.merging.answers import Answers
from thalweg.operators.merging.chains import (
    chain,
    distinct_digests,
    expected_ends,
    left_ends,
)
from thalweg.operators.merging.changes import Changes
from thalweg.operators.merging.digest_table import grown
from thalweg.operators.merging.identity import Identity
from thalweg.operators.merging.level import (
    ABSENT,
    Alarm,
    BrokenLevelError,
    MergeInput,
    MergeLevel,
    Outlook,
    first_row,
    show_end,
)
from thalweg.operators.merging.top_tier import TopTier

__all__ = ["KeyedLevel"]

Ends = npt.NDArray[np.int64]


class KeyedLevel(MergeLevel):
    name = "R3"

    def __init__(self, schema: pa.Schema, identity: Identity) -> None:
        self.schema = schema
        self.identity = identity
        self.top = TopTier(schema)
        self.ends: Ends = np.full((0, self.top.capacity), ABSENT)
        """By input and slot."""
        self.out: Times = np.full(self.top.capacity, ABSENT)
        self.kept: Times | None = None
        """With `missing="keep"`: what inputs that have left can no longer take back."""
        self.answers = Answers() if identity.groups else None
        self._touched: Codes = np.empty(0, np.int64)

    # ------------------------------------------------------------------------------------------
    # inputs

    def attach(self, member: MergeInput) -> None:
        missing = member.column + 1 - len(self.ends)
        if missing > 0:
            more = np.full((missing, self.top.capacity), ABSENT)
            self.ends = np.concatenate([self.ends, more])

    def detach(self, member: MergeInput, outlook: Outlook) -> None:
        column = self.ends[member.column]
        if outlook.policy.missing == "keep":
            self._keep(member)
        column[:] = ABSENT

    def _keep(self, member: MergeInput) -> None:
        """Rows that this input could not have taken back stay, whoever else has them."""
        if self.kept is None:
            self.kept = np.full(self.top.capacity, ABSENT)
        column = self.ends[member.column]
        final = (column != ABSENT) & (self.kept == ABSENT)
        if not member.insert_only:
            final &= self.top.start < member.cti
        self.kept[final] = column[final]

    # ------------------------------------------------------------------------------------------
    # a batch

    def update(self, member: MergeInput, batch: Batch, outlook: Outlook) -> None:
        self._touched = np.empty(0, np.int64)
        if not len(batch):
            return
        digests = self.identity.of_rows(batch, self.top)
        slots = self.top.table.find(digests)
        unknown = slots < 0
        settled = unknown & (batch.start < outlook.settled)
        which = np.flatnonzero(~settled)
        fresh = np.flatnonzero(unknown & ~settled)
        first, codes = distinct_digests(digests.take(fresh))
        keys = slots.copy()
        keys[fresh] = self.top.capacity + codes
        current = np.full(len(batch), ABSENT)
        known = np.flatnonzero(~unknown)
        current[known] = self.ends[member.column, slots[known]]
        after = left_ends(batch)
        linked = chain(keys[which], current[which], after[which], self.top.capacity + len(first))
        self._check(member, batch, which, linked.before, expected_ends(batch)[which])
        member.ignored += len(batch) - len(which)
        self.operations += len(batch)
        added = self._add(batch, digests, fresh[first])
        slots[fresh] = added[codes]
        last = which[linked.last]
        self.ends[member.column, slots[last]] = after[last]
        self._touched = slots[last]

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

    def _add(self, batch: Batch, digests: Digests, positions: Codes) -> Codes:
        if not len(positions):
            return positions
        rows = batch.payload.take(pa.array(positions))
        slots = self.top.add(digests.take(positions), rows, batch.start[positions])
        if self.out.shape[0] < self.top.capacity:
            self.out = grown(self.out, self.top.capacity, ABSENT)
            self.ends = grown(self.ends, self.top.capacity, ABSENT)
            if self.kept is not None:
                self.kept = grown(self.kept, self.top.capacity, ABSENT)
        if self.answers is not None:
            self.answers.add(slots, self.identity.of_groups(rows, batch.start[positions]))
        return slots

    # ------------------------------------------------------------------------------------------
    # a promise

    def advance(self, leader: MergeInput, time: int, outlook: Outlook) -> Batch:
        slots = self.top.reach(time)
        self.operations += len(slots)
        if not len(slots):
            return Batch.empty(self.schema)
        start, out_end = self.top.start[slots], self.out[slots]
        in_end = self._wanted(leader, slots, outlook)
        free = start >= outlook.settled
        have, shown = in_end != ABSENT, out_end != ABSENT
        if self.answers is None:  # by group, another payload is another version of the row
            outlook.left_out += self._left_out(slots[~have & free], outlook)
        vanish, appear = shown & ~have & free, have & ~shown & free
        move = have & shown & (in_end != out_end) & ((in_end < time) | (out_end < time))
        late = move & (in_end < outlook.settled)
        lost = shown & ~have & ~free
        if late.any() or lost.any():
            self._disagree(leader, slots, late | lost, in_end, out_end, outlook)
            move &= ~late
        changes = Changes()
        changes.adjust(slots[vanish], out_end[vanish], start[vanish])
        changes.adjust(slots[move], out_end[move], in_end[move])
        changes.insert(slots[appear], in_end[appear])
        now = np.where(vanish, ABSENT, np.where(move | appear, in_end, out_end))
        self.out[slots] = now
        if self.answers is not None:
            self.answers.take_back(slots[vanish])
            self.answers.show(slots[appear])
        batch = changes.to_batch(self.top.start, self.top.payloads.take, self.schema)
        gone = now < time if time < INFINITY else np.ones(len(slots), np.bool_)
        self._forget(slots[gone])
        self.top.remove_half(gone)
        return batch

    def _wanted(self, leader: MergeInput, slots: Codes, outlook: Outlook) -> Times:
        """The end that each row is to have; of rows to be kept, as the furthest input has it."""
        if outlook.policy.missing == "leader":
            led: Times = self.ends[leader.column, slots]
            return led
        wanted: Times = np.full(len(slots), ABSENT)
        for member in sorted(outlook.inputs, key=lambda member: -member.promise):
            open_ = wanted == ABSENT
            wanted[open_] = self.ends[member.column, slots[open_]]
        if self.kept is not None:
            wanted = np.where(wanted == ABSENT, self.kept[slots], wanted)
        return wanted

    def _left_out(self, slots: Codes, outlook: Outlook) -> int:
        """How many of these rows, which the leader lacks, some input has."""
        columns = [member.column for member in outlook.inputs]
        return int((self.ends[columns][:, slots] != ABSENT).any(axis=0).sum())

    def _forget(self, slots: Codes) -> None:
        self.out[slots] = ABSENT
        self.ends[:, slots] = ABSENT
        if self.kept is not None:
            self.kept[slots] = ABSENT
        if self.answers is not None:
            self.answers.remove(slots)

    def _disagree(
        self,
        leader: MergeInput,
        slots: Codes,
        where: Bools,
        in_end: Times,
        out_end: Times,
        outlook: Outlook,
    ) -> None:
        at = int(np.flatnonzero(where)[0])
        slot = int(slots[at])
        payload = self.top.payloads.take(slots[at : at + 1]).to_pylist()[0]
        start = int(self.top.start[slot])
        others = [
            member.name
            for member in outlook.inputs
            if member is not leader and self.ends[member.column, slot] == out_end[at]
        ]
        other = others[0] if others else "an input that has left"
        says = show_end(in_end[at])
        outlook.alarms.append(
            Alarm(
                "disagreement",
                leader.name,
                other,
                payload,
                start,
                f"merge: inputs {leader.name!r} and {other!r} disagree about {payload} from {start}"
                f": {leader.name!r} has {says} as its end, the output {show_end(out_end[at])}, and "
                f"the CTI {outlook.settled} forbids a change ({int(where.sum())} rows in all).",
            )
        )

    # ------------------------------------------------------------------------------------------
    # policies

    def show(self, member: MergeInput, outlook: Outlook) -> Batch:
        touched = self._touched
        self._touched = np.empty(0, np.int64)
        return self._show(member, touched[self.top.alive[touched]], outlook)

    def refollow(self, leader: MergeInput, outlook: Outlook) -> Batch | None:
        if "leader" not in (outlook.policy.insert, outlook.policy.revise):
            return None
        slots = np.concatenate([self.top.half, self.top.unfrozen()])
        self.operations += len(slots)
        return self._show(leader, slots, outlook)

    def _show(self, member: MergeInput, slots: Codes, outlook: Outlook) -> Batch:
        if not len(slots):
            return Batch.empty(self.schema)
        end, out_end = self.ends[member.column, slots], self.out[slots]
        have, shown = end != ABSENT, out_end != ABSENT
        free = self.top.start[slots] >= outlook.settled
        follows = outlook.policy.revise == "every" or (
            outlook.policy.revise == "leader" and member is outlook.leader
        )
        appear = have & ~shown & free
        if appear.any():
            appear &= self._may_show(member, slots, outlook)
        vanish = shown & ~have & free if follows else np.zeros(len(slots), np.bool_)
        replaced: Codes = np.empty(0, np.int64)
        if self.answers is not None:
            newest = self.answers.newest(slots, have)
            current = self.answers.shown(slots)
            appear &= newest & (current < 0)
            if follows:
                swap = newest & free & (current >= 0) & (current != slots)
                replaced = current[swap]
                appear |= swap
        changes = Changes()
        self._retract(changes, np.union1d(slots[vanish], replaced))
        if follows:
            move = have & shown & (end != out_end) & (end >= outlook.settled)
            changes.adjust(slots[move], out_end[move], end[move])
            self.out[slots[move]] = end[move]
        changes.insert(slots[appear], end[appear])
        self.out[slots[appear]] = end[appear]
        if self.answers is not None:
            self.answers.show(slots[appear])
        return changes.to_batch(self.top.start, self.top.payloads.take, self.schema)

    def _retract(self, changes: Changes, slots: Codes) -> None:
        changes.adjust(slots, self.out[slots], self.top.start[slots])
        self.out[slots] = ABSENT
        if self.answers is not None:
            self.answers.take_back(slots)

    def _may_show(self, member: MergeInput, slots: Codes, outlook: Outlook) -> Bools | bool:
        """Whether the policy of location 2 lets rows appear that this input has just brought."""
        policy, inputs = outlook.policy.insert, outlook.inputs
        if policy == "leader":
            return member is outlook.leader
        if policy == "half frozen":
            return False  # `advance` shows a row when it gets half frozen
        if policy == "highest start":
            return member.highest_start >= max(other.highest_start for other in inputs)
        if policy == "most unfrozen":
            there = self.ends[:, self.top.unfrozen()] != ABSENT
            counts = there.sum(axis=1)
            return bool(counts[member.column] >= counts.max())
        if policy == "share":
            columns = [other.column for other in inputs]
            there = (self.ends[columns][:, slots] != ABSENT).sum(axis=0)
            return np.asarray(there >= outlook.policy.share * len(inputs))
        return True

    # ------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> dict[str, Rows]:
        slots = self.top.table.used()
        half = np.zeros(self.top.capacity, np.bool_)
        half[self.top.half] = True
        names = ["_start", "_out", "_half", "_kept", *(f"_in{at}" for at in range(len(self.ends)))]
        kept = np.full(len(slots), ABSENT) if self.kept is None else self.kept[slots]
        columns = [self.top.start[slots], self.out[slots], half[slots], kept]
        columns += [ends[slots] for ends in self.ends]
        rows = self.top.payloads.take(slots)
        return {
            "rows": pa.RecordBatch.from_arrays(
                [*map(pa.array, columns), *rows.columns], names=[*names, *rows.schema.names]
            )
        }

    def restore(self, slices: Mapping[str, Rows], columns: int) -> None:
        rows = slices["rows"]
        width = len([name for name in rows.schema.names if name.startswith("_in")])
        numbers = [rows.column(at).to_numpy(zero_copy_only=False) for at in range(4 + width)]
        payload = pa.RecordBatch.from_arrays(rows.columns[4 + width :], schema=self.schema)
        self.ends = np.full((max(width, columns), self.top.capacity), ABSENT)
        batch = Batch(payload, np.array(numbers[0], np.int64), np.array(numbers[1], np.int64))
        digests = self.identity.of_rows(batch, self.top)
        slots = self._add(batch, digests, np.arange(len(batch)))
        self.out[slots] = numbers[1]
        if (numbers[3] != ABSENT).any():
            self.kept = np.full(self.top.capacity, ABSENT)
            self.kept[slots] = numbers[3]
        for at in range(width):
            self.ends[at, slots] = numbers[4 + at]
        half = np.asarray(numbers[2], np.bool_)
        if half.any():
            self.top.reach(int(batch.start[half].max()) + 1)
        if self.answers is not None:
            self.answers.show(slots[self.out[slots] != ABSENT])

    def state_size(self) -> StateSize:
        bytes_ = self.top.nbytes + self.ends.nbytes + self.out.nbytes
        bytes_ += 0 if self.kept is None else self.kept.nbytes
        bytes_ += 0 if self.answers is None else self.answers.nbytes
        return StateSize(len(self.top), bytes_)
