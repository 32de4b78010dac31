"""Session lifetime (Trill's session): (s, e, p) -> (s, session end, p); the running form of a
session.

A row ends `timeout` after the last start of its chain (see `sessions`). With `max_duration` m the
chain is also cut at L, L + m, L + 2m, ..., L being the first multiple of m after the chain's first
start if that is itself a multiple, and the second if it is not. Ends of the input do not matter.

State, by group, in an arrangement: rows whose session end has not been passed by the CTI, and the
last settled row of each open chain, marked with the chain's first start. A batch looks at the
groups that it touches, a CTI at those of which something has ended; a CTI for a group frees that
group alone. Progress passes: a later start moves only ends that lie after it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import ABSENT, Delta, Revision
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows, concat_rows
from thalweg.model.sorting import distinct
from thalweg.model.time import INFINITY, MIN_TIME, Times, least
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.operators.groups import only_starts
from thalweg.operators.rows.sessions import Chains, chains_of
from thalweg.operators.window.partition_values import grown, moved_to
from thalweg.operators.window.partitions import GroupPromises, Partitions
from thalweg.plan.nodes import SessionLifetime
from thalweg.state import Arrangement, Hits

__all__ = ["SessionLifetimeKernel"]


class SessionLifetimeKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "string"}).session_lifetime(6)
    >>> spans = {"a": (11, 15), "b": (12, 14), "c": (21, 26)}
    >>> tw.table(query, {"s": [tw.insert({"v": v}, *span) for v, span in spans.items()]})
    [(11, 18, {'v': 'a'}), (12, 18, {'v': 'b'}), (21, 27, {'v': 'c'})]
    """

    def __init__(self, node: SessionLifetime) -> None:
        self.schema = node.schema
        self._timeout, self._limit = node.timeout, node.max_duration
        self._groups = Partitions(node.schema, node.keys)
        self._held = Arrangement(node.schema, self._groups.of_rows, marks=1, what="SessionLifetime")
        """Rows over [start, start + timeout), marked with the first start of their chain."""
        self._over = np.empty(0, np.int64)
        """By group, the earliest time after which one of its rows is not needed any more."""
        self._cti = MIN_TIME

    def process(self, port: int, batch: Batch) -> Batch:
        changes: Delta | Revision = Delta.empty(self.schema)
        if len(batch):
            changes = self._apply(only_starts(Delta.of_batch(batch)))
        promised = self._groups.promised(batch.progress)
        moved = batch.progress.cti > self._cti
        self._cti = max(self._cti, batch.progress.cti)
        if self._cti == INFINITY:
            self._clear()
        elif moved or promised.scopes:
            self._forget(promised)
        times = zip(promised.scopes, promised.times.tolist(), strict=True)
        later = {scope: time for scope, time in times if time > self._cti}
        passing = Progress(self._cti, promised.columns, later) if later else Progress(self._cti)
        return changes.to_batch(passing)

    def _apply(self, delta: Delta) -> Delta | Revision:
        if not len(delta):
            return Delta.empty(self.schema)
        group = self._groups.of_rows(delta.payload)
        touched = distinct(group)
        before = self._held.of_groups(touched)
        held = Delta(delta.payload, delta.start, delta.start + self._timeout, delta.weight)
        if least(delta.weight) > 0:
            return self._insert(held, group, before, touched)
        old, _ = self._answers(before)
        self._held.apply(held, group, (delta.start,))
        after = self._held.of_groups(touched)
        new, over = self._answers(after)
        self._note_ends(touched, after.group, over)
        return Delta.concat([new, old.negate()], self.schema)

    def _insert(self, rows: Delta, group: Codes, held: Hits, touched: Codes) -> Revision:
        """New rows have their ends, and some of those that are held have other ones."""
        size, start, mark = len(held), held.start, held.mark(0)
        _, before = self._ends(held.group, start, mark)
        groups, start = np.concatenate([held.group, group]), np.concatenate([start, rows.start])
        _, after = self._ends(groups, start, np.concatenate([mark, rows.start]))
        self._note_ends(touched, groups, after)
        moved = (before != after[:size]).nonzero()[0]
        which = np.concatenate([moved, np.arange(size, len(start))])
        payload = concat_rows([held.payload_of(moved), rows.payload], self.schema)
        none = np.full(len(rows), ABSENT)
        weight = np.concatenate([held.weight[moved], rows.weight])
        self._held.add(rows, group, (rows.start,))
        return Revision(
            payload, start[which], np.concatenate([before[moved], none]), after[which], weight
        )

    def _note_ends(self, touched: Codes, group: Codes, end: Times) -> None:
        """The ends of all rows of some groups are now these."""
        self._over = grown(self._over, touched, INFINITY)
        self._over[touched] = INFINITY
        np.minimum.at(self._over, group, end)

    def _answers(self, rows: Hits) -> tuple[Delta, Times]:
        """What the rows of some groups give, and their ends."""
        _, end = self._ends(rows.group, rows.start, rows.mark(0))
        return Delta(rows.payload(), rows.start, end, rows.weight), end

    def _ends(self, group: Codes, start: Times, mark: Times) -> tuple[Chains, Times]:
        chains = chains_of(group, start, mark, self._timeout)
        end = (chains.last + self._timeout)[chains.of_row]
        if self._limit is None:
            return chains, end
        m = self._limit
        first_cut = chains.first // m * m + np.where(chains.first % m == 0, 1, 2) * m
        cut = first_cut[chains.of_row]
        next_cut = np.where(start < cut, cut, cut + ((start - cut) // m + 1) * m)
        return chains, np.minimum(end, next_cut)

    # --------------------------------------------------------------------------------------------
    # promises

    def _forget(self, promised: GroupPromises) -> None:
        """Forget the rows that no later change can reach, of groups that have some."""
        settled = np.full(len(self._over), self._cti)
        old = promised.partition < len(self._over)
        np.maximum.at(settled, promised.partition[old], promised.time[old])
        due = np.flatnonzero(self._over < settled)
        if len(due):
            self._over[due] = INFINITY
            self._settle(self._held.of_groups(due), settled)
            self._held.purge(MIN_TIME)
        if self._groups.index.is_untidy:
            moved = self._groups.index.keep(self._held.groups())
            self._held.renumber(moved)
            self._over = moved_to(self._over, moved, INFINITY)

    def _settle(self, rows: Hits, times: Times) -> None:
        group, start, mark = rows.group, rows.start, rows.mark(0)
        cti = times[group]
        chains, end = self._ends(group, start, mark)
        settled = start < cti
        last_settled = np.full(len(chains.first), MIN_TIME)
        np.maximum.at(last_settled, chains.of_row[settled], start[settled])
        chain_end = (chains.last + self._timeout)[chains.of_row]
        needed = settled & (start == last_settled[chains.of_row]) & (chain_end > cti)
        kept = ((end >= cti) | needed) & (cti != INFINITY)
        rows.set_mark(0, np.where(settled, chains.first[chains.of_row], mark))
        over = np.where(end >= cti, end, chain_end)[kept]
        np.minimum.at(self._over, group[kept], over)
        rows.set_weight(np.where(kept, rows.weight, 0))

    # --------------------------------------------------------------------------------------------
    # state

    def _clear(self) -> None:
        self._held.clear()
        self._groups.clear()
        self._over = np.empty(0, np.int64)

    def snapshot(self) -> Slices:
        return {
            **self._held.snapshot("rows"),
            "progress": slice_of_progress([Progress(self._cti)]),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._clear()
        self._held.restore("rows", slices)
        self._cti = progress_of_slice(slices["progress"])[0].cti
        rows = self._held.all()
        self._over = np.full(len(self._groups.index), INFINITY)
        ends = self._ends(rows.group, rows.start, rows.mark(0))[1]
        np.minimum.at(self._over, rows.group, ends)

    def state_size(self) -> StateSize:
        return self._held.size()
