"""Cutting over from one query to another while both run.

Two cases that are kept apart. *Equivalent* queries (another plan, another machine) mean the
same table: attach the new one to a `Merger`, wait until it has joined, detach the old one.
*Different* answers (a fixed bug, other parameters) are not mutually consistent, and LMerge would
raise alarms. For them there is `Cutover`: with t a CTI of the output,

    R' = the rows of OLD that start before t, and the rows of NEW that start at t or later

At the switch the rows from t on that OLD has shown are taken back, those of NEW are put in, and
nothing else reaches the sink. What the CTI forbids to change, where OLD and NEW differ before t, is
listed (`differences`) and not changed. Going back is the same call with the two exchanged.

State: the rows of both that are not final in both, and those in which they differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.model.rows import Rows
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import Slices, delta_of_slice, slice_of_delta
from thalweg.operators.text_slices import slice_of_text, text_of_slice

__all__ = ["Cutover"]


class Cutover:
    """
    >>> import thalweg as tw
    >>> from thalweg.model.element_batches import batches_of
    >>> schema = pa.schema([("n", pa.int64())])
    >>> def made(*elements):
    ...     [batch] = batches_of(elements, schema)
    ...     return batch
    >>> cut = Cutover(schema)
    >>> out = cut.old(made(tw.insert({"n": 1}, 0, 10), tw.insert({"n": 1}, 10, 20), tw.cti(10)))
    >>> out += cut.new(made(tw.insert({"n": 2}, 0, 10), tw.insert({"n": 2}, 10, 20), tw.cti(10)))
    >>> out += cut.switch()
    >>> tw.cht(tw.elements_of(out))
    [(0, 10, {'n': 1}), (10, 20, {'n': 2})]
    >>> cut.differences().to_pylist()
    [{'_start': 0, '_end': 10, '_in': 'old', 'n': 1},
     {'_start': 0, '_end': 10, '_in': 'new', 'n': 2}]
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.time: int | None = None
        """Where the switch was made; None before it."""
        self._old, self._new = Delta.empty(schema), Delta.empty(schema)
        self._old_progress, self._new_progress = NO_PROGRESS, NO_PROGRESS
        self._old_running = True
        self._promised = MIN_TIME

    def old(self, batch: Batch) -> list[Batch]:
        """A batch of the query that is replaced; what reaches the sink."""
        self._old_progress = self._old_progress.merge(batch.progress)
        self._old = _plus(self._old, batch)
        self._prune()
        if self.time is None:
            return self._answer(batch)
        return self._answer(batch.filter(batch.start < self.time))

    def new(self, batch: Batch) -> list[Batch]:
        """A batch of the query that replaces it; before the switch nothing reaches the sink."""
        self._new_progress = self._new_progress.merge(batch.progress)
        if self._old_running:
            self._new = _plus(self._new, batch)
            self._prune()
        if self.time is None:
            return []
        return self._answer(batch.filter(batch.start >= self.time))

    def switch(self) -> list[Batch]:
        """Switch at the CTI that the output has promised; what reaches the sink."""
        if self.time is not None:
            raise PlanError(f"cutover: it was switched at {self.time}; a cutover switches once.")
        if self._promised <= MIN_TIME:
            raise PlanError("cutover: the old query has promised nothing yet; there is no CTI.")
        self.time = self._promised
        leaving = self._old.filter(self._old.start >= self.time).negate()
        coming = self._new.filter(self._new.start >= self.time)
        changes = Delta.concat([leaving, coming], self.schema)
        return self._answer(changes.consolidate().to_batch())

    def stop_old(self) -> list[Batch]:
        """The old query has been stopped: progress is that of the new one. The ends of its rows
        stay as they are."""
        if self.time is None:
            raise PlanError("cutover: switch first, then stop the old query.")
        self._old_running = False
        # What is left to be known is where the two differ before the switch.
        early = [self._old.start < self.time, self._new.start < self.time]
        self._old, self._new = _apart(self._old.filter(early[0]), self._new.filter(early[1]))
        return self._answer(Batch.empty(self.schema))

    def differences(self, before: int | None = None) -> pa.Table:
        """Rows that start before a time (by default the switch, or what both have promised) and
        that only one of the two has."""
        both = min(self._old_progress.cti, self._new_progress.cti)
        limit = before if before is not None else both if self.time is None else self.time
        return self._differing(
            self._old.filter(self._old.start < limit), self._new.filter(self._new.start < limit)
        )

    def final_differences(self) -> pa.Table:
        """Rows that are final in both, and that only one of the two has."""
        limit = min(self._old_progress.cti, self._new_progress.cti)
        return self._differing(
            self._old.filter(self._old.end < limit), self._new.filter(self._new.end < limit)
        )

    def _differing(self, old: Delta, new: Delta) -> pa.Table:
        parts = Delta.concat([old, new.negate()], self.schema).consolidate()
        names = np.where(parts.weight > 0, "old", "new")
        columns = [pa.array(parts.start), pa.array(parts.end), pa.array(names)]
        return pa.Table.from_arrays(
            [*columns, *parts.payload.columns], names=["_start", "_end", "_in", *self.schema.names]
        )

    def snapshot(self) -> Slices:
        """All state, between two batches."""
        progress = [progress_text(each) for each in (self._old_progress, self._new_progress)]
        facts = [self.time, self._old_running, self._promised, progress]
        return {
            "cutover": slice_of_text(json.dumps(facts), "cutover"),
            "old": slice_of_delta(self._old),
            "new": slice_of_delta(self._new),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        """Back to a snapshot."""
        facts = json.loads(text_of_slice(slices["cutover"]))
        self.time, self._old_running, self._promised, progress = facts
        self._old_progress, self._new_progress = (progress_of_text(text) for text in progress)
        self._old, self._new = delta_of_slice(slices["old"]), delta_of_slice(slices["new"])

    def _prune(self) -> None:
        """Drop the rows that are final in both and equal."""
        limit = min(self._old_progress.cti, self._new_progress.cti)
        final_old, final_new = self._old.end < limit, self._new.end < limit
        if not final_old.any() or not final_new.any():
            return
        left, right = _apart(self._old.filter(final_old), self._new.filter(final_new))
        open_old, open_new = self._old.filter(~final_old), self._new.filter(~final_new)
        self._old = Delta.concat([open_old, left], self.schema)
        self._new = Delta.concat([open_new, right], self.schema)

    def _answer(self, batch: Batch) -> list[Batch]:
        promise = self._old_progress.cti
        if self.time is not None:
            promise = min(promise, self._new_progress.cti)
            promise = promise if self._old_running else self._new_progress.cti
        has_moved = promise > self._promised
        self._promised = max(self._promised, promise)
        if not len(batch) and not has_moved:
            return []
        return [batch.with_progress(Progress(self._promised))]


def _apart(old: Delta, new: Delta) -> tuple[Delta, Delta]:
    """The rows that only the one and only the other has."""
    differs = Delta.concat([old, new.negate()], old.schema).consolidate()
    return differs.filter(differs.weight > 0), differs.filter(differs.weight < 0).negate()


def _plus(rows: Delta, batch: Batch) -> Delta:
    return Delta.concat([rows, Delta.of_batch(batch)], rows.schema).consolidate()
