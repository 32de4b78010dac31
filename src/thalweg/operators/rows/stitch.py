"""Stitch: rows of equal payload where one ends exactly when another starts become one row.

At each time t the rows that end at t, ordered by (start, end), are joined one to one with the rows
that start at t, ordered by end. A chain of joined rows becomes [start of its first, end of its
last).

State, by payload: rows that end at or after the CTI, in an arrangement; and, in another, the rows
that these continue and that have ended, each with the start of its chain. A row may still change
its end, and so the row that it continues; how many rows start at a time before the CTI, and which
ended there, may not. Progress passes, that of groups too: a change at or after the CTI moves only
ends at or after it. The payloads of a group that has ended are forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta, Weights
from thalweg.model.progress import NO_PROGRESS, Scope
from thalweg.model.rows import Codes, Rows
from thalweg.model.sorting import distinct
from thalweg.model.time import INFINITY, MIN_TIME, Times, least
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.operators.group_promises import newly_promised, promised_groups
from thalweg.operators.groups import refuse_negative
from thalweg.operators.indexed_arrangements import IndexedArrangements
from thalweg.operators.rows.chain_roots import chain_roots
from thalweg.plan.nodes import Stitch
from thalweg.state import Arrangement, Hits, KeyIndex

__all__ = ["StitchKernel"]


@dataclass(frozen=True, slots=True)
class _Linked:
    """Rows of weight one of some payloads, `ended` rows behind the others."""

    rows: Delta
    group: Codes
    chain: Times
    """Where the chain that leads to a row began, if it has ended; else its start."""
    ended: int
    """How many of the rows have ended before the CTI."""
    taken_back: int

    @property
    def alive(self) -> int:
        return len(self.rows) - self.ended

    def before(self) -> Codes:
        """For each row the one it continues, or -1. What an ended row continued is in its
        chain."""
        rows, size, alive = self.rows, len(self.rows), self.alive
        before = np.full(size, -1)
        if not alive:
            return before
        # All ends and starts in one order: at each time of a payload first the rows that end
        # there, then those that start there.
        group = np.concatenate([self.group, self.group[:alive]])
        time = np.concatenate([rows.end, rows.start[:alive]])
        starts = np.arange(size + alive) >= size
        rank = np.concatenate([rows.start, rows.end[:alive]])
        order = np.lexsort((rank, starts, time, group))
        group, time, starts = group[order], time[order], starts[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (group[1:] != group[:-1]) | (time[1:] != time[:-1])
        first = new.nonzero()[0]
        ending = np.add.reduceat(~starts, first, dtype=np.int64)
        at = starts.nonzero()[0]
        place = (new.cumsum() - 1)[at]
        partner = at - ending[place]  # as far behind the first end as the start is behind its own
        linked = at - first[place] < 2 * ending[place]
        before[order[at[linked]] - size] = order[partner[linked]]
        return before

    def chains(self, before: Codes) -> Times:
        """The start of each row's chain."""
        return self.chain[chain_roots(np.where(before >= 0, before, np.arange(len(before))))]

    def answer(self) -> Delta:
        """The chains that have not ended."""
        before = self.before()
        is_last = np.ones(len(before), np.bool_)
        is_last[before[before >= 0]] = False
        is_last[self.alive :] = False
        rows = self.rows
        return Delta(rows.payload, self.chains(before), rows.end, self.signs()).filter(is_last)

    def signs(self) -> Weights:
        """Rows of the groups from `taken_back` on are those before a change."""
        return np.where(self.group < self.taken_back, 1, -1)


class StitchKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "string"}).stitch()
    >>> lifetimes = (("a", 1, 3), ("a", 3, 7), ("b", 3, 4))
    >>> tw.table(query, {"s": [tw.insert({"v": v}, start, end) for v, start, end in lifetimes]})
    [(1, 7, {'v': 'a'}), (3, 4, {'v': 'b'})]
    """

    def __init__(self, node: Stitch) -> None:
        self.schema = node.schema
        self._index = KeyIndex(list(node.schema))
        self._held = Arrangement(node.schema, self._groups, what="Stitch")
        self._behind = Arrangement(node.schema, self._groups, marks=2, what="Stitch")
        """Rows that have ended and are continued: start, and as marks end and start of the
        chain."""
        self._state = IndexedArrangements(self._index, {"rows": self._held, "behind": self._behind})
        self._progress = NO_PROGRESS

    def _groups(self, rows: Rows) -> Codes:
        return self._index.numbers(rows.columns, rows.num_rows)

    def process(self, port: int, batch: Batch) -> Batch:
        changes = Delta.empty(self.schema)
        if len(batch):
            changes = self._apply(Delta.of_batch(batch))
        before, self._progress = self._progress, self._progress.advance(batch.progress)
        if self._progress.cti > before.cti:
            self._forget(self._progress.cti)
        ended = [s for s, t in newly_promised(before, self._progress).items() if t == INFINITY]
        if ended:
            self._drop(ended)
        return changes.to_batch(self._progress.without_column_promises())

    def _drop(self, scopes: list[Scope]) -> None:
        """Forget the payloads of groups that have ended."""
        columns = self._progress.scope_columns
        promised = dict.fromkeys(scopes, INFINITY)
        group, until = promised_groups(self._index, list(self.schema), columns, promised)
        if len(group):
            self._held.drop_groups(group, until)
            self._behind.drop_groups(group, until)

    def _apply(self, delta: Delta) -> Delta:
        number = self._groups(delta.payload)
        touched = distinct(number)
        found, behind = self._alive(touched), self._behind.of_groups(touched)
        held, group = found.delta(), found.group
        rows, groups = Delta.concat([held, delta], self.schema), np.concatenate([group, number])
        if not (delta.weight > 0).all():
            kept, weight = rows.consolidation()
            net = rows.take(kept)
            rows, groups = Delta(net.payload, net.start, net.end, weight), groups[kept]
            refuse_negative(rows, "Stitch")
        # Both sides at once, the groups before the change numbered behind those after it.
        groups_before = len(self._index)
        both = Delta.concat([rows, held], self.schema)
        linked = self._linked(
            both, np.concatenate([groups, group + groups_before]), behind, offset=groups_before
        )
        self._held.apply(delta, number)
        return linked.answer()

    def _alive(self, group: Codes) -> Hits:
        """The rows of some payloads that may still change, or have not stepped back."""
        return self._held.of_groups(group, self._progress.cti - 1)

    def _linked(
        self,
        rows: Delta,
        group: Codes,
        behind: Hits,
        *,
        offset: int = 0,
        more: Hits | None = None,
    ) -> _Linked:
        """Rows with what they may continue: rows that ended before, and `more` that end now. Rows
        of groups from `offset` on, where there is one, are those before a change."""
        parts, groups, chains = [rows], [group], [rows.start]
        if more is not None:
            parts.append(more.delta())
            groups.append(more.group)
            chains.append(more.start)
        if len(behind):
            past = Delta(behind.payload(), behind.start, behind.mark(0), behind.weight)
            for shift in (0, offset) if offset else (0,):
                parts.append(past)
                groups.append(behind.group + shift)
                chains.append(behind.mark(1))
        every = Delta.concat(parts, self.schema)
        number, chain = np.concatenate(groups), np.concatenate(chains)
        ended = sum(map(len, parts[1 if more is None else 2 :]))
        if not (every.weight == 1).all():
            many = np.repeat(np.arange(len(every)), every.weight)
            ended = int(every.weight[len(every) - ended :].sum()) if ended else 0
            unit = every.take(many)
            every = Delta(unit.payload, unit.start, unit.end, np.ones(len(unit), np.int64))
            number, chain = number[many], chain[many]
        return _Linked(every, number, chain, ended, offset or len(self._index))

    def _forget(self, cti: int) -> None:
        if cti == INFINITY:
            self._state.clear()
            return
        ended = self._held.release(cti - 1)
        if len(ended):
            self._step_back(ended, cti)
        self._state.tidy()

    def _step_back(self, ended: Hits, cti: int) -> None:
        """Keep the rows that end now, or ended before, and are continued by one that has not."""
        touched = distinct(ended.group)
        found, behind = self._alive(touched), self._behind.of_groups(touched)
        # A row that starts at the CTI or later continues none that has ended.
        may_continue = len(found) and least(found.start) < cti
        kept = self._continued(found, behind, ended, cti) if may_continue else None
        if len(behind):
            behind.set_weight(np.zeros(len(behind), np.int64))
            self._behind.purge(MIN_TIME)
        if kept is not None:
            self._behind.add(*kept)

    def _continued(
        self, found: Hits, behind: Hits, ended: Hits, cti: int
    ) -> tuple[Delta, Codes, tuple[Times, Times]]:
        """The rows that have ended by the CTI and are continued by one that has not, as they are
        kept."""
        linked = self._linked(found.delta(), found.group, behind, more=ended)
        rows, before = linked.rows, linked.before()
        continued = np.zeros(len(rows), np.bool_)
        continued[before[(before >= 0) & (rows.end >= cti)]] = True
        which = np.flatnonzero(continued & (rows.end < cti))
        old = rows.take(which)
        endless = Delta(old.payload, old.start, np.full(len(old), INFINITY), old.weight)
        return endless, linked.group[which], (old.end, linked.chains(before)[which])

    def snapshot(self) -> Slices:
        return {**self._state.snapshot(), "progress": slice_of_progress([self._progress])}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._state.restore(slices)
        self._progress = progress_of_slice(slices["progress"])[0]
        self._held.purge(self._progress.cti - 1)

    def state_size(self) -> StateSize:
        return self._state.size()
