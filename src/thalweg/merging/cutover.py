"""Cutting over from one query to another while both run.

There are two cases. *Equivalent* queries (another plan, another machine) mean the same table:
attach the new query to a `Merger`, wait until it has joined, detach the old one. Queries with
*different* answers (a fixed bug, other parameters) are not mutually consistent, and LMerge would
raise alarms. For them there is `Cutover`: with t a CTI of the output,

    R' = the rows of OLD that start before t, and the rows of NEW that start at t or later

At the switch the rows of OLD from t on are removed from the output, those of NEW are inserted, and
nothing else reaches the sink. Where OLD and NEW differ before t, the CTI forbids a change: such
rows are listed (`differences`) and not changed. Going back is the same call with the two exchanged.

State: the rows of both queries that are not final in both, and those in which they differ.
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
        """The time of the switch; None before it."""
        self._old, self._new = Delta.empty(schema), Delta.empty(schema)
        self._old_progress, self._new_progress = NO_PROGRESS, NO_PROGRESS
        self._old_running = True
        self._promised = MIN_TIME

    def old(self, batch: Batch) -> list[Batch]:
        """Take a batch of the query that is replaced; returns the batches for the sink."""
        self._old_progress = self._old_progress.merge(batch.progress)
        self._old = _plus(self._old, batch)
        self._prune()
        if self.time is None:
            return self._answer(batch)
        return self._answer(batch.filter(batch.start < self.time))

    def new(self, batch: Batch) -> list[Batch]:
        """Take a batch of the query that replaces it; returns the batches for the sink, none before
        the switch."""
        self._new_progress = self._new_progress.merge(batch.progress)
        if self._old_running:
            self._new = _plus(self._new, batch)
            self._prune()
        if self.time is None:
            return []
        return self._answer(batch.filter(batch.start >= self.time))

    def switch(self) -> list[Batch]:
        """Switch at the CTI that the output has promised; returns the batches for the sink."""
        if self.time is not None:
            raise PlanError(f"cutover: it was switched at {self.time}; a cutover switches once.")
        if self._promised <= MIN_TIME:
            raise PlanError("cutover: the old query has promised nothing yet; there is no CTI.")
        self.time = self._promised
        removed = self._old.filter(self._old.start >= self.time).negate()
        added = self._new.filter(self._new.start >= self.time)
        changes = Delta.concat([removed, added], self.schema)
        return self._answer(changes.consolidate().to_batch())

    def stop_old(self) -> list[Batch]:
        """Note that the old query was stopped: the output has the progress of the new one from now
        on, and the ends of the old rows stay as they are."""
        if self.time is None:
            raise PlanError("cutover: switch first, then stop the old query.")
        self._old_running = False
        # only the differences before the switch may still be asked for
        old = self._old.filter(self._old.start < self.time)
        new = self._new.filter(self._new.start < self.time)
        self._old, self._new = _apart(old, new)
        return self._answer(Batch.empty(self.schema))

    def differences(self, before: int | None = None) -> pa.Table:
        """Rows that only one of the two queries has and that start before a time: by default that
        of the switch, before it what both have promised."""
        both = min(self._old_progress.cti, self._new_progress.cti)
        limit = before if before is not None else both if self.time is None else self.time
        return self._differing(
            self._old.filter(self._old.start < limit), self._new.filter(self._new.start < limit)
        )

    def final_differences(self) -> pa.Table:
        """Rows that only one of the two queries has, and that are final in both."""
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
    """The rows that are only in `old`, and those that are only in `new`."""
    differs = Delta.concat([old, new.negate()], old.schema).consolidate()
    return differs.filter(differs.weight > 0), differs.filter(differs.weight < 0).negate()


def _plus(rows: Delta, batch: Batch) -> Delta:
    return Delta.concat([rows, Delta.of_batch(batch)], rows.schema).consolidate()
