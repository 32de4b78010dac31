"""The promises of the answers of modules, from the promises of their rows.

The CTI is the start of the earliest window that is open or may still appear: no output comes before
it. Where output is time-bound, or where a window that is only cut keeps its answer, it is the CTI
of the input; with unrestricted stamps there is none before the end.
"""

from __future__ import annotations

import numpy as np

from thalweg.errors import ModuleError
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress, Scope
from thalweg.model.rows import Codes
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.window.modules.count_instants import CountInstants
from thalweg.operators.window.modules.window_frames import Frame, GridFrame
from thalweg.operators.window.modules.window_index import WindowIndex
from thalweg.operators.window.partitions import GroupPromises, Partitions
from thalweg.plan.nodes import WindowApply
from thalweg.progress.frontier import Frontier, Line

__all__ = ["ModulePromises"]


class ModulePromises:
    """The promises of the answers: `common` for all partitions, `of_partition` for single ones."""

    def __init__(
        self,
        node: WindowApply,
        frame: Frame,
        frontier: Frontier,
        partitions: Partitions,
        windows: WindowIndex,
        instants: CountInstants | None,
    ) -> None:
        self._node, self._frame, self._frontier = node, frame, frontier
        self._partitions, self._windows, self._instants = partitions, windows, instants
        self._unrestricted = node.stamp == "unrestricted"
        self._time_bound = node.stamp == "time-bound"
        self.common = MIN_TIME
        self.of_partition: dict[int, int] = {}

    def line(self) -> Line:
        """The promise for each partition."""
        return Line(self.common, self.of_partition)

    def clear(self) -> None:
        """Drop all promises, after the last CTI."""
        self.common, self.of_partition = INFINITY, {}

    def renumber(self, moved: Codes) -> None:
        self.of_partition = {int(moved[at]): time for at, time in self.of_partition.items()}

    def withdraw(self, partition: Codes) -> None:
        """Forget the promises for some partitions alone."""
        for at in partition.tolist():
            self.of_partition.pop(at, None)

    def move(self, groups: GroupPromises) -> Progress:
        """The promise of the answers now, with those for groups that follow from the groups'
        promises."""
        self.common = max(self.common, self._common())
        if not groups.scopes:
            return Progress(self.common)
        return Progress(self.common, groups.columns, self._of_groups(groups))

    def _common(self) -> int:
        cti = self._frontier.cti
        if cti in (MIN_TIME, INFINITY):
            return cti
        if self._unrestricted:
            return MIN_TIME
        if self._time_bound:
            back = self._windows.held_back().answered.rows
            return min(cti, int(back.start.min(initial=INFINITY)))
        if self._node.passes_cti:
            return min(cti, self._windows.first_waiting())
        promise = min(cti, self._windows.first())
        if isinstance(self._frame, GridFrame):
            grid = self._frame.grid
            return min(promise, int(grid.start(np.array([grid.last_ending_by(cti) + 1]))[0]))
        if self._instants is not None:
            return min(promise, self._instants.line(cti), self._instants.first())
        return promise

    def _of_groups(self, groups: GroupPromises) -> dict[Scope, int]:
        frontier = self._frontier
        partition, which = groups.partition, groups.which
        settled = np.array(np.broadcast_to(frontier.settled().of(partition), partition.shape))
        times = settled.copy()
        found = self._windows.of(partition)
        ended = settled == INFINITY
        if self._unrestricted:
            times[~ended] = MIN_TIME
        elif self._time_bound:
            self._hold_back(partition, times)
        else:
            holds = ~found.answered if self._node.passes_cti else found.answered | True
            np.minimum.at(times, found.owner[holds], found.entries.start[holds])
            open_ = ~ended
            if isinstance(self._frame, GridFrame):
                grid = self._frame.grid
                last = (settled[open_] - grid.offset - grid.size) // grid.hop
                times[open_] = np.minimum(times[open_], grid.start(last + 1))
            elif self._instants is not None:
                begins = np.minimum(self._instants.line(settled), self._instants.begins(partition))
                times[open_] = np.minimum(times, begins)[open_]
        self.of_partition |= {
            at: max(time, self.of_partition.get(at, MIN_TIME))
            for at, time in zip(partition.tolist(), times.tolist(), strict=True)
        }
        least = groups.times.copy()
        np.minimum.at(least, which, times)
        found_times = zip(groups.scopes, least.tolist(), strict=True)
        return {scope: time for scope, time in found_times if time > self.common}

    def _hold_back(self, partition: Codes, times: Times) -> None:
        """For time-bound output: lower the promises to the start of the earliest answer that
        waits."""
        rows = self._windows.held_back().answered.rows
        if len(rows):
            first = np.full(len(self._partitions.index), INFINITY)
            np.minimum.at(first, self._partitions.of_rows(rows.payload), rows.start)
            np.minimum(times, first[partition], out=times)

    def needs(self, time: int) -> int:
        """The promise that closes everything that may still change an answer before `time`."""
        if time <= MIN_TIME or time == INFINITY or time <= self.common or self._time_bound:
            return time
        if self._unrestricted:
            return INFINITY
        if self._node.passes_cti:
            held = self._windows.waiting_before(time).entries.end
            return max([time, *map(int, held.tolist())])
        entries = self._windows.beginning_before(time)
        least = max(time, int(entries.closes.max(initial=time)))
        if isinstance(self._frame, GridFrame):
            return max(least, self._frame.grid.needs(time))
        if self._instants is not None:
            waits = self._instants.first_open(max(time, self._frontier.cti))
            return INFINITY if waits < time else least
        return least

    def refuse_broken(self, out: Batch) -> None:
        """Refuse output that changes an answer before the promise: the module breaks its declared
        stamps."""
        if self.common == MIN_TIME or not len(out):
            return
        early = out.sync < self.common
        if early.any():
            at = int(np.argmax(early))
            raise ModuleError(
                f"module {self._node.module.label} is not time-bound: after the CTI "
                f"{self.common} it changed the output {out.payload.slice(at, 1).to_pylist()[0]} "
                f"over [{out.start[at]}, {out.end[at]}). Say stamp='keep', or mend it."
            )
