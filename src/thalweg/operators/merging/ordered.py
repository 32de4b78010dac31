"""R0, R1 and R2: inserts in order of their starts. No rows are held, only the last starts.

    R0  starts increase strictly
    R1  starts do not decrease, and rows of one start come in the same order in every input
    R2  starts do not decrease; payload and start are a key

A row is sent when its start is above every start seen on any input. Of the rows at the highest
start, R1 sends the k-th row of an input if no input has had a k-th row there yet (a counter for
each input), and R2 those whose payloads were not sent (by their digests). So the output follows the
input that is ahead, row by row. A row that starts before the output's CTI is not sent: it was sent
earlier, or the input that made the CTI lacks it.

An input that joins with `since=t` may lack rows that end before `t`, so that its order means
nothing for starts before `t`, and R1 cannot find the place of its rows in a run that begins there.
Its rows are held until the output has promised `t`; of these, rows from the output's CTI on count.

A batch that is not in order, or has an adjust, breaks the level (`BrokenLevelError`, with the input
and the row).
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch, one_batch
from thalweg.model.digests import Digests, digest_rows
from thalweg.model.progress import NO_PROGRESS, Scope
from thalweg.model.rows import Bools, Codes, Rows, take_rows
from thalweg.model.time import MIN_TIME, Times
from thalweg.operators.base import StateSize
from thalweg.operators.merging.chains import distinct_digests
from thalweg.operators.merging.digest_table import DigestTable
from thalweg.operators.merging.level import (
    BrokenLevelError,
    MergeContext,
    MergeInput,
    MergeLevel,
    first_row,
)
from thalweg.operators.merging.sent_starts import SentStarts
from thalweg.operators.text_slices import slice_of_text, text_of_slice

__all__ = ["IN_ORDER_LEVELS", "InOrderLevel", "RunDigestLevel", "RunOrderLevel", "StrictLevel"]


class InOrderLevel(MergeLevel):
    """The common part of R0 to R2: the highest start of all inputs and the last start of each
    input."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.highest = MIN_TIME
        self.last: dict[int, int] = {}
        """By column: the last start of its input."""
        self.waiting: dict[int, list[Batch]] = {}
        """By column: the batches of an input that has not joined yet."""
        self._out: Batch = Batch.empty(schema)
        self.sent_starts = SentStarts()

    def attach(self, member: MergeInput) -> None:
        self.last[member.column] = MIN_TIME
        self.sent_starts.attach(member.column)

    def detach(self, member: MergeInput, context: MergeContext) -> None:
        self.last.pop(member.column, None)
        self.waiting.pop(member.column, None)
        self.sent_starts.detach(member.column)

    def update(self, member: MergeInput, batch: Batch, context: MergeContext) -> None:
        self._out = Batch.empty(self.schema)
        if not len(batch):
            return
        self._check(member, batch)
        self.last[member.column] = int(batch.start[-1])
        if member.joined:
            self._out = self._follow(member, batch, context)
        else:
            later = batch.filter(batch.start >= context.settled).with_progress(NO_PROGRESS)
            self.waiting.setdefault(member.column, []).append(later)

    def join(self, member: MergeInput, context: MergeContext) -> Batch | None:
        held = Batch.concat(self.waiting.pop(member.column, []), self.schema)
        return self._follow(member, held, context) if len(held) else None

    def _follow(self, member: MergeInput, batch: Batch, context: MergeContext) -> Batch:
        self.operations += len(batch)
        start = batch.start
        begin = int(np.searchsorted(start, self.highest, side="left"))
        begin = max(begin, int(np.searchsorted(start, context.settled, side="left")))
        sent = self._select(member, batch, begin)
        if context.groups.promised:
            sent &= start >= context.settled_of(batch)
        count = int(np.count_nonzero(sent))
        member.ignored += len(batch) - count
        self.highest = max(self.highest, int(start[-1]))
        self.sent_starts.note(start[sent])
        context.left_out += self.sent_starts.left_out(member.column, start)
        if not count:  # most batches, of inputs that are not in front
            return Batch.empty(self.schema)
        return batch.filter(sent).with_progress(NO_PROGRESS)

    def _check(self, member: MergeInput, batch: Batch) -> None:
        if batch.is_adjust is not None:
            payload, start, end = first_row(batch, batch.is_adjust)
            raise BrokenLevelError(
                f"merge: input {member.name!r} adjusts {payload} from {start} to {end}; "
                f"at {self.name} there are only inserts."
            )
        before = np.concatenate([[self.last[member.column]], batch.start[:-1]])
        wrong = self._out_of_order(before, batch.start)
        if wrong.any():
            payload, start, _ = first_row(batch, wrong)
            raise BrokenLevelError(
                f"merge: input {member.name!r} has {payload} from {start} after a row from "
                f"{int(before[wrong][0])}; at {self.name} starts must {self.order}."
            )

    order = "not decrease"

    def _out_of_order(self, before: Times, start: Times) -> Bools:
        return np.asarray(start < before)

    @abstractmethod
    def _select(self, member: MergeInput, batch: Batch, begin: int) -> Bools:
        """Which rows are sent, none of them before position `begin`."""

    def advance(self, leader: MergeInput, time: int, context: MergeContext) -> Batch:
        return Batch.empty(self.schema)

    def advance_groups(
        self, leader: MergeInput, times: Mapping[Scope, int], context: MergeContext
    ) -> Batch:
        return Batch.empty(self.schema)

    def show(self, member: MergeInput, context: MergeContext) -> Batch:
        out, self._out = self._out, Batch.empty(self.schema)
        return out

    def _figures(self) -> dict[str, object]:
        return {"highest": self.highest, "last": list(self.last.items())}

    def _take_figures(self, figures: Mapping[str, object]) -> None:
        self.highest = int(str(figures["highest"]))
        pairs = figures["last"]
        assert isinstance(pairs, list)
        self.last = {int(column): int(start) for column, start in pairs}

    def snapshot(self) -> dict[str, Rows]:
        slices = {"figures": slice_of_text(json.dumps(self._figures()), "figures")}
        slices |= self.sent_starts.snapshot()
        for column, held in self.waiting.items():
            rows = one_batch(Batch.concat(held, self.schema).to_table(), "a merge")
            slices[f"waiting/{column}"] = rows
        return slices

    def restore(self, slices: Mapping[str, Rows], columns: int, settled: int) -> None:
        self._take_figures(json.loads(text_of_slice(slices["figures"])))
        self.sent_starts.restore(slices["sent starts"], slices["runs"])
        for name in slices:
            if name.startswith("waiting/"):
                self.waiting[int(name.partition("/")[2])] = [Batch.from_table(slices[name])]

    def state_size(self) -> StateSize:
        held = [batch for batches in self.waiting.values() for batch in batches]
        rows, bytes_ = sum(map(len, held)), sum(int(batch.payload.nbytes) for batch in held)
        numbers = 16 * rows + 16 + 16 * len(self.last) + self.sent_starts.nbytes
        return StateSize(rows, bytes_ + numbers)


class StrictLevel(InOrderLevel):
    """R0."""

    name = "R0"
    order = "increase"

    def _out_of_order(self, before: Times, start: Times) -> Bools:
        return np.asarray(start <= before)

    def _select(self, member: MergeInput, batch: Batch, begin: int) -> Bools:
        later = int(np.searchsorted(batch.start, self.highest, side="right"))
        sent = np.zeros(len(batch), np.bool_)
        sent[max(begin, later) :] = True
        return sent


class RunOrderLevel(InOrderLevel):
    """R1: counts the rows at the highest start."""

    name = "R1"

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        self.counts: dict[int, int] = {}
        """By column: how many rows the input has had there."""
        self.most = 0
        """How many were sent there, also of inputs that have left."""

    def attach(self, member: MergeInput) -> None:
        super().attach(member)
        self.counts[member.column] = 0

    def detach(self, member: MergeInput, context: MergeContext) -> None:
        super().detach(member, context)
        self.counts.pop(member.column, None)

    def _select(self, member: MergeInput, batch: Batch, begin: int) -> Bools:
        start, column = batch.start, member.column
        sent = np.zeros(len(batch), np.bool_)
        sent[begin:] = True
        level = int(np.searchsorted(start, self.highest, side="right"))  # beyond the highest start
        if begin < level:  # the rows of the run that other inputs may have sent already
            rank = self.counts[column] + np.arange(1, level - begin + 1)
            sent[begin:level] = rank > self.most
            self.counts[column] += level - begin
        if level < len(start) and begin < len(start):
            self.counts = dict.fromkeys(self.counts, 0)
            run = int(np.searchsorted(start, start[-1], side="left"))
            self.counts[column] = self.most = len(start) - max(run, begin)
        self.most = max(self.most, self.counts[column])
        return sent

    def _figures(self) -> dict[str, object]:
        return {**super()._figures(), "counts": list(self.counts.items()), "most": self.most}

    def _take_figures(self, figures: Mapping[str, object]) -> None:
        super()._take_figures(figures)
        counts = figures["counts"]
        assert isinstance(counts, list)
        self.counts = {int(column): int(count) for column, count in counts}
        self.most = int(str(figures["most"]))

    def state_size(self) -> StateSize:
        return super().state_size() + StateSize(0, 16 * len(self.counts))


class RunDigestLevel(InOrderLevel):
    """R2: keeps the digests of the rows sent at the highest start. A single row is kept as it is:
    mostly the next start comes before its digest is needed, or other inputs send an equal row."""

    name = "R2"

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        self.sent = DigestTable()
        self.single: Rows | None = None
        """The only row sent there, if its digest is not in `sent` yet."""

    def _select(self, member: MergeInput, batch: Batch, begin: int) -> Bools:
        start = batch.start
        sent = np.zeros(len(batch), np.bool_)
        level = int(np.searchsorted(start, self.highest, side="right"))
        sent[max(begin, level) :] = True
        if begin < level:
            sent[begin:level] = self._unsent(batch.payload.slice(begin, level - begin))
        if level < len(start) and begin < len(start):
            run = max(int(np.searchsorted(start, start[-1], side="left")), begin)
            self.sent = DigestTable() if len(self.sent) else self.sent
            self.single = None
            if run == len(start) - 1:
                self.single = take_rows(batch.payload, np.array([run]))
            else:
                sent[run:] = self._unsent(batch.payload.slice(run))
        return sent

    def _digest_single(self) -> None:
        if self.single is not None:
            self.sent.add(digest_rows(self.single.columns, 1))
            self.single = None

    def _unsent(self, rows: Rows) -> Bools:
        """Which of these rows were not sent before, the first of equal rows; they count as sent."""
        unsent = np.zeros(rows.num_rows, np.bool_)
        if self.single is not None and not len(self.sent) and rows.equals(self.single):
            return unsent
        self._digest_single()
        digests = digest_rows(rows.columns, rows.num_rows)
        new: Codes = np.flatnonzero(self.sent.find(digests) < 0)
        first, _ = distinct_digests(digests.take(new))
        unsent[new[first]] = True
        self.sent.add(digests.take(new[first]))
        return unsent

    def snapshot(self) -> dict[str, Rows]:
        self._digest_single()
        slots = self.sent.used()
        sent = [pa.array(self.sent.high[slots]), pa.array(self.sent.low[slots])]
        rows = pa.RecordBatch.from_arrays(sent, names=["high", "low"])
        return {**super().snapshot(), "sent": rows}

    def restore(self, slices: Mapping[str, Rows], columns: int, settled: int) -> None:
        super().restore(slices, columns, settled)
        high, low = (column.to_numpy().astype(np.uint64) for column in slices["sent"].columns)
        self.sent, self.single = DigestTable(), None
        self.sent.add(Digests(high, low))

    def state_size(self) -> StateSize:
        single = 0 if self.single is None else int(self.single.nbytes)
        return super().state_size() + StateSize(len(self.sent), self.sent.nbytes + single)


IN_ORDER_LEVELS: Mapping[str, type[InOrderLevel]] = {
    level.name: level for level in (StrictLevel, RunOrderLevel, RunDigestLevel)
}
