"""Joins that count whole rows: left, right and full outer, semi and anti, of rows whose ends do not
move.

    semi: {(s1, e1, p1) | it has a match}     anti: {(s1, e1, p1) | it has none}
    left: the pairs, and left_only(p1) of each left row without a match; right and full likewise

Answers leave at once: a row is alone from the moment it arrives, and taken back when a partner
arrives after all; a row that loses its last partner is alone again. Null keys match nothing,
duplicates count one by one.

State: as in `join`, each row that may be alone with the number of its matches so far. That number
is complete: a row that is new, or is taken away, starts at its side's CTI or later, and all it can
meet is still held. The promise is the smaller of the two CTIs, but not beyond the start of a row
that may still find, or lose, a partner.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from thalweg.model.area_promises import NO_AREAS, AreaPromises
from thalweg.model.batch import Batch
from thalweg.model.column_promises import ColumnPromises, join_column_promises
from thalweg.model.delta import Delta
from thalweg.model.progress import Progress, Scope
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import rename_scopes
from thalweg.operators.frames import plain_renames
from thalweg.operators.joining.outer import OuterKernel
from thalweg.plan.nodes import Join

__all__ = ["MatchJoinKernel"]


class MatchJoinKernel(OuterKernel):
    """
    >>> import thalweg as tw
    >>> a, b = tw.source("a", {"k": "int64"}), tw.source("b", {"k": "int64"})
    >>> rows = {"a": [tw.point({"k": 1}, 3), tw.point({"k": 1}, 9)], "b": [tw.point({"k": 1}, 4)]}
    >>> near = tw.band(before=2, after=2)
    >>> [tw.table(a.window_join(b, "k", window=near, how=how), rows) for how in ("anti", "semi")]
    [[(9, 10, {'k': 1})], [(3, 4, {'k': 1})]]
    """

    marks_alone = 1
    """The number of matches."""

    def __init__(self, node: Join) -> None:
        super().__init__(node)
        self._renames = (self._carried(0), self._carried(1))

    def process(self, port: int, batch: Batch) -> Batch:
        changes: list[Delta] = []
        if len(batch):
            delta = self._sides[port].project(
                Delta.of_batch(batch), only_matchable=not self._preserved[port]
            )
            if len(delta):
                changes = self._change(port, delta)
        self._advance(port, batch.progress)
        return Delta.concat(changes, self.schema).to_batch(self._promise())

    def _change(self, port: int, delta: Delta) -> list[Delta]:
        other = 1 - port
        probes = np.flatnonzero(self._sides[port].matchable(delta.payload))
        group = np.zeros(len(delta), np.int64)
        group[probes] = self._state.groups(delta.payload.take(pa.array(probes)))
        found = self._held[other].find(group[probes], delta.start[probes], delta.end[probes])
        found = self._matching(port, delta, replace(found, owner=probes[found.owner]))
        changes = [self._joined(port, delta, found)] if self._gives_pairs else []
        marks: tuple[Times, ...] = ()
        if self._preserved[port]:
            count = _summed(found.owner, found.weight, len(delta))
            changes.append(self._alone_rows(port, delta, delta.weight * self._shown(count)))
            marks = (count,)
        if self._preserved[other] and len(found):
            rows, which = found.distinct()
            before = rows.mark(0)
            after = before + _summed(which, delta.weight[found.owner], len(rows))
            turned = self._shown(after).astype(np.int64) - self._shown(before)
            if turned.any():
                turns = np.flatnonzero(turned)
                changed = rows.filter(turned != 0).delta()
                changes.append(self._alone_rows(other, changed, changed.weight * turned[turns]))
            rows.set_mark(0, after)
        marks = tuple(mark[probes] for mark in marks)
        self._keep(port, delta.take(probes), group[probes], marks)
        return changes

    def _shown(self, count: Times) -> Bools:
        """Whether a row with so many matches is part of the answer by itself."""
        return count > 0 if self._node.kind.left_matched else count == 0

    def _alone_rows(self, port: int, rows: Delta, weight: Times) -> Delta:
        """Rows of one side by themselves, as often as the weights say."""
        which = weight.nonzero()[0]
        if not len(which):
            return Delta.empty(self.schema)
        rows = rows.take(which)
        payload = self._alone_payload(port, rows.payload, rows.start)
        return Delta(payload, rows.start, rows.end, weight[which])

    # --------------------------------------------------------------------------------------------
    # promises

    def _promise(self) -> Progress:
        undecided = [
            held.first() for held, kept in zip(self._held, self._preserved, strict=True) if kept
        ]
        both = self._progress.both
        cti = min(both.cti, *undecided)
        common = Progress(cti, column_promises=self._promised_columns())
        if not both.speaks_of_groups:
            return common
        areas = self._decided_areas(both, cti) if both.areas else both.areas
        groups = replace(both, cti=cti, scoped=self._decided(both), column_promises={}, areas=areas)
        return replace(
            rename_scopes(groups, self._scope_names), column_promises=common.column_promises
        )

    def _decided(self, both: Progress) -> dict[Scope, int]:
        """Of each group that both sides promise, how far its rows are decided."""
        decided = dict(both.scoped)
        scopes = list(decided)
        which = {scope: time for scope, time in decided.items() if time != INFINITY}
        if not which:
            return decided
        for held, kept in zip(self._held, self._preserved, strict=True):
            if not kept:
                continue
            group, at = self._state.groups_of_scopes(both.scope_columns, scopes)
            size = len(group)
            found = held.find(group, np.full(size, MIN_TIME), np.full(size, INFINITY))
            first = np.full(len(scopes), INFINITY)
            np.minimum.at(first, at[found.owner], found.start)
            decided = {
                scope: min(time, start)
                for (scope, time), start in zip(decided.items(), first.tolist(), strict=True)
            }
        return decided

    def _decided_areas(self, both: Progress, cti: int) -> AreaPromises:
        """Of each area that both sides promise, how far its rows are decided."""
        areas = both.areas
        for held, kept in zip(self._held, self._preserved, strict=True):
            if kept and not held.is_empty():
                rows = held.between(held.purged, INFINITY)
                areas = areas.lower(self._state.scope_keys(both, rows), rows.start)
        return areas.merge(NO_AREAS, cti)

    def needs(self, time: int) -> tuple[int, ...]:
        """Each side as far as the rows of the other that start before that time may still find a
        partner."""
        needed = [time, time]
        for port, held in enumerate(self._held):
            if self._preserved[port]:
                needed[1 - port] = max(time, held.latest_end(time))
        return tuple(needed)

    def _promised_columns(self) -> ColumnPromises:
        """Only column promises over columns that no row of the answer has null."""
        if self._preserved == (True, True):
            return join_column_promises(self._alone(0), self._alone(1))
        return self._alone(0 if self._preserved[0] else 1)

    def _carried(self, port: int) -> dict[str, str]:
        """The columns of one side that the answer has, in pairs and in rows that are alone."""
        if not self._gives_pairs:
            return {name: name for name in self.schema.names} if port == 0 else {}
        alone = plain_renames(self._alone_columns[port])
        return {old: new for old, new in self._renames[port].items() if alone.get(old) == new}


def _summed(which: Codes, weight: Times, size: int) -> Times:
    total = np.zeros(size, np.int64)
    np.add.at(total, which, weight)
    return total
