"""A merge's promises for single groups, and the rows that they concern.

An input may promise more for one group than for all. Then the output can too: it follows the input
that has promised most for that group, so that every group has a leader of its own. Nothing is kept
until the first such promise. From then on the group of every live row is known, and the rows of a
group are found in sorted runs, so that a promise costs what its groups hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.model.digests import Digests, digest_rows
from thalweg.model.progress import Progress, Scope
from thalweg.model.rows import Codes, Rows
from thalweg.model.sorting import distinct
from thalweg.model.time import MIN_TIME, Times
from thalweg.operators.merging.chains import distinct_digests
from thalweg.operators.merging.digest_table import DigestTable, grown
from thalweg.operators.merging.slot_ranges import Slots
from thalweg.operators.merging.top_tier import TopTier
from thalweg.state.search import spread

__all__ = ["GroupPromises"]

_FEW = 64


class GroupPromises:
    """The output's promises for groups that are later than its CTI."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.columns: tuple[str, ...] = ()
        """The columns that identify a group; none as long as no promise for a group has come."""
        self.promised: dict[Scope, int] = {}
        self.leaders: dict[Scope, str] = {}
        self._table = DigestTable()
        self._time: Times = np.full(self._table.capacity, MIN_TIME)
        """By number of the group: the output's promise for it."""
        self._group: Codes = np.zeros(0, np.int64)
        """By slot of a row: the number of its group."""
        self._runs: list[tuple[Codes, Codes]] = []
        """Columns (group, slot), sorted by group. The row of a slot may have been dropped."""
        self._swept = _FEW
        """How many groups there were after the last clean-up."""

    def __bool__(self) -> bool:
        return bool(self.columns)

    @property
    def nbytes(self) -> int:
        runs = sum(groups.nbytes + slots.nbytes for groups, slots in self._runs)
        return self._table.nbytes + self._time.nbytes + self._group.nbytes + runs

    # ------------------------------------------------------------------------------------------
    # promises

    def begin(self, columns: tuple[str, ...], top: TopTier | None) -> None:
        """Begin with the first promise for groups: find the groups of the rows that are held."""
        self.columns = columns
        if top is not None:
            slots = top.used()
            self.note(slots, top.payloads.take(slots), top)

    def promise(self, times: Mapping[Scope, int]) -> None:
        """Note what the output promises for groups."""
        self.promised.update(times)
        groups = self._groups(self._digests_of(list(times)))
        self._time[groups] = list(times.values())

    def forget_before(self, cti: int) -> None:
        """Drop the promises that the output's CTI covers."""
        passed = [scope for scope, time in self.promised.items() if time <= cti]
        for scope in passed:
            del self.promised[scope]
            self.leaders.pop(scope, None)
        if len(self._table) > 2 * self._swept:
            self._sweep()

    def progress(self, cti: int, changed: Mapping[Scope, int]) -> Progress:
        """The output's progress after a batch, with the group promises that are new."""
        above = {scope: time for scope, time in changed.items() if time > cti}
        return Progress(cti, self.columns, above) if above else Progress(cti)

    # ------------------------------------------------------------------------------------------
    # rows

    def of_rows(self, rows: Rows, cti: int) -> Times:
        """The output's promise for each row."""
        groups = self._table.find(self._digests(rows))
        own = np.where(groups >= 0, self._time[groups], MIN_TIME)
        return np.maximum(own, cti)

    def at(self, slots: Slots, cti: int) -> Times:
        """The output's promise for the rows in these slots."""
        return np.maximum(self._time[self._group[slots]], cti)

    def promised_by(self, slots: Codes, scoped: Mapping[Scope, int], cti: int) -> Times:
        """An input's promise for the rows in these slots, from its promises for groups (`scoped`)
        and its CTI."""
        times = np.full(self._table.capacity, cti)
        if scoped:
            groups = self._groups(self._digests_of(list(scoped)))
            times = grown(times, self._table.capacity, cti)
            times[groups] = np.maximum(list(scoped.values()), cti)
        return times[self._group[slots]]

    def note(self, slots: Codes, rows: Rows, top: TopTier) -> None:
        """Find the groups of new rows."""
        if not len(slots):
            return
        groups = self._groups(self._digests(rows))
        self._group = grown(self._group, top.capacity)
        self._group[slots] = groups
        order = np.argsort(groups, kind="stable")
        self._runs.append((groups[order], slots[order]))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._runs[-2:] = [self._merged(self._runs[-2:], top)]

    def rows_before(self, times: Mapping[Scope, int], top: TopTier) -> tuple[Codes, Times]:
        """The slots of the rows that start before the time of their group, and that time."""
        groups = self._groups(self._digests_of(list(times)))
        order = np.argsort(groups)
        groups, limits = groups[order], np.array(list(times.values()))[order]
        parts = []
        for run, slots in self._runs:
            _, at = spread(np.searchsorted(run, groups), np.searchsorted(run, groups, "right"))
            parts.append(slots[at])
        slots = distinct(np.concatenate(parts)) if parts else np.empty(0, np.int64)
        slots = slots[top.open[slots] & top.alive[slots]]
        place = np.searchsorted(groups, self._group[slots])
        found = groups[np.minimum(place, len(groups) - 1)] == self._group[slots]
        slots, limit = slots[found], limits[np.minimum(place, len(groups) - 1)][found]
        reached = top.start[slots] < limit
        return slots[reached], limit[reached]

    # ------------------------------------------------------------------------------------------

    def _merged(self, runs: Sequence[tuple[Codes, Codes]], top: TopTier) -> tuple[Codes, Codes]:
        """One run out of several, without rows that were dropped."""
        groups = np.concatenate([run[0] for run in runs])
        slots = np.concatenate([run[1] for run in runs])
        there = top.alive[slots] & (self._group[slots] == groups)
        groups, slots = groups[there], slots[there]
        order = np.argsort(groups, kind="stable")
        return groups[order], slots[order]

    def _groups(self, digests: Digests) -> Codes:
        """The number of each group; a new group gets the next number."""
        groups = self._table.find(digests)
        fresh = np.flatnonzero(groups < 0)
        if len(fresh):
            first, codes = distinct_digests(digests.take(fresh))
            added = self._table.add(digests.take(fresh[first]))
            self._time = grown(self._time, self._table.capacity, MIN_TIME)
            self._time[added] = MIN_TIME
            groups[fresh] = added[codes]
        return groups

    def _digests(self, rows: Rows) -> Digests:
        return digest_rows([rows.column(name) for name in self.columns], rows.num_rows)

    def _digests_of(self, scopes: Sequence[Scope]) -> Digests:
        columns = [
            pa.array([scope[at] for scope in scopes], self.schema.field(name).type)
            for at, name in enumerate(self.columns)
        ]
        return digest_rows(columns, len(scopes))

    def _sweep(self) -> None:
        """Drop groups without rows in the runs and without a promise of their own."""
        used = self._table.used()
        needed = np.zeros(self._table.capacity, np.bool_)
        for groups, _ in self._runs:
            needed[groups] = True
        if self.promised:
            needed[self._groups(self._digests_of(list(self.promised)))] = True
        unused = used[~needed[used]]
        self._time[unused] = MIN_TIME
        self._table.remove(unused)
        self._swept = max(_FEW, len(self._table))
