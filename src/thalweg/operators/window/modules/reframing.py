"""Replaces the windows of modules after a change of their rows.

A change touches regions of time of some groups (see `window_frames`). The windows that the index
has there are compared with the windows that the rows make there now. A window stays if its span is
the same and its rows are the same for the module; the answers of other old windows are retracted,
and new windows get entries. The state of a window that has only changed is updated, where the
module works in steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, encode
from thalweg.model.sorting import representatives, sort_pairs
from thalweg.model.time import INFINITY, Times
from thalweg.operators.groups import only_starts
from thalweg.operators.window.modules.event_index import EventIndex, Events
from thalweg.operators.window.modules.module_kernel import matches
from thalweg.operators.window.modules.module_windows import ModuleWindows
from thalweg.operators.window.modules.taking_back import TakingBack
from thalweg.operators.window.modules.window_entries import Entries
from thalweg.operators.window.modules.window_frames import Frame, Reach, Regions, Spans
from thalweg.operators.window.modules.window_index import WindowIndex
from thalweg.operators.window.partitions import Partitions
from thalweg.progress.frontier import Line
from thalweg.udm.cells import Cells

__all__ = ["Reframing"]

Pairs = tuple[Codes, Codes, Codes]
"""Parallel columns: a changed row, a window that it is in, and how often it is added or removed."""

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Reframing:
    module: ModuleWindows
    frame: Frame
    partitions: Partitions
    events: EventIndex
    windows: WindowIndex
    taking_back: TakingBack
    in_steps: bool

    def take(self, delta: Delta, settled: Line, reach: Reach) -> tuple[Delta, Entries]:
        """Apply changes of rows; returns the answers to take back, and the new windows, which have
        not answered. `settled` has the promises before."""
        if self.frame.by == "start" and not self.module.module.time_sensitive:
            net = only_starts(delta)  # ends do not matter
            delta = Delta(net.payload, net.start, net.start + 1, net.weight)
        elif _has_pairs(delta):
            delta = delta.consolidate()
        partition = self.partitions.of_rows(delta.payload)
        if self.frame.by == "start" and self.module.module.time_sensitive:
            delta, partition = self._without_forgotten(delta, partition)
        if not len(delta):
            return self.nothing()
        low, high = self._touched(delta)
        regions, which = Regions(partition, low, high).joined()
        regions, again = self._apply(regions, delta, partition).joined()
        return self.reframe(regions, delta, again[which], settled, reach)

    def _apply(self, regions: Regions, delta: Delta, partition: Codes) -> Regions:
        """Apply changes of rows; returns the touched regions, extended to all windows that they
        touch."""
        frame = self.frame
        wide = frame.widen(regions, self.windows, self.events)
        self.events.apply(delta, partition)
        if not frame.counts:
            return wide
        now = frame.widen(regions, self.windows, self.events)
        low, high = np.minimum(wide.low, now.low), np.maximum(wide.high, now.high)
        return Regions(regions.partition, low, high)

    def nothing(self) -> tuple[Delta, Entries]:
        none = self.windows.make(_NONE, _NONE, _NONE, _NONE, _NONE)
        return Delta.empty(self.module.node.schema), none

    def _without_forgotten(self, delta: Delta, partition: Codes) -> tuple[Delta, Codes]:
        """Without changes of ends of rows that are forgotten because their windows are closed.
        Only such rows are not held: the promise that closed them may be forgotten too."""
        old = np.flatnonzero(delta.weight < 0)
        if not len(old):
            return delta, partition
        lost = old[self.events.missing(delta.take(old), partition[old])]
        if not len(lost):
            return delta, partition
        alike, count = encode([*delta.payload.columns, delta.start], len(delta))
        forgotten = np.zeros(count, np.bool_)
        forgotten[alike[lost]] = True
        keep = ~forgotten[alike]
        return delta.filter(keep), partition[keep]

    def _touched(self, delta: Delta) -> tuple[Times, Times]:
        """The time in which each change matters: where only an end moves, and the module does not
        look beyond a window's end, from the earlier end on."""
        placed = self.events.place(delta)
        since = placed.start
        if self.frame.by is None and not self.module.node.ends_matter and _has_pairs(delta):
            alike, count = encode([*delta.payload.columns, delta.start], len(delta))
            total, least = np.zeros(count, np.int64), np.full(count, INFINITY)
            np.add.at(total, alike, delta.weight)
            np.minimum.at(least, alike, delta.end)
            since = np.where(total[alike] == 0, least[alike], since)
        low, high = self.frame.reach(since, placed.end)
        return low, np.maximum(high, low + 1)

    def reframe(
        self, regions: Regions, delta: Delta, code: Codes, settled: Line, reach: Reach
    ) -> tuple[Delta, Entries]:
        """Replace the windows of some regions after changes were applied; `code` is the region of
        each changed row."""
        probes = regions.partition, regions.low, regions.high
        found = self.windows.inside(*probes)
        old = found.entries
        after = self.events.find(*probes)
        spans = self.frame.spans(after.owner, after.since, after.until, regions, reach)
        match = matches(found.owner, old.start, old.end, spans)
        ended = self.frame.ended(spans.end, settled.of(regions.partition[spans.code]))
        fresh = (match >= 0) | ~ended
        spans, match = spans.take(fresh), match[fresh]
        pairs = self._changes(delta, code, spans)
        stays = match >= 0
        stays[pairs[1]] = False
        goes = np.ones(len(old), np.bool_)
        goes[match[stays]] = False
        leaving = found.filter(goes)

        def old_rows(some: Codes) -> tuple[Codes, Cells]:
            entries, own = leaving.entries.take(some), leaving.owner[some]
            order = sort_pairs(own, entries.start)
            spans = Spans(own[order], entries.start[order], entries.end[order])
            return order, self._old_cells(after, delta, code, spans)

        removed = self.taking_back.rows(leaving, self.windows, old_rows)
        self.windows.remove(leaving)
        new = spans.take(~stays)
        arriving = self._make_entries(after, new, regions.partition[new.code])
        self._carry(arriving, old, match[~stays], delta, pairs, stays)
        return removed, arriving

    def _changes(self, delta: Delta, code: Codes, spans: Spans) -> Pairs:
        """Pairs (changed row, window) that matter to the module, and how often the row is added or
        removed."""
        if not len(delta) or not len(spans):
            return _NONE, _NONE, _NONE
        placed = self.events.place(delta)
        row, window = self.frame.members(code, placed.start, placed.end, spans)
        return self.module.net(delta, row, window, spans) if len(row) else (_NONE, _NONE, _NONE)

    def _old_cells(self, after: Events, delta: Delta, code: Codes, spans: Spans) -> Cells:
        """The rows that windows had before the change."""
        rows = Delta.concat([after.delta(), delta.negate()], self.module.held)
        owner = np.concatenate([after.owner, code])
        alike, count = encode([owner, *rows.payload.columns, rows.start, rows.end], len(rows))
        total = np.zeros(count, np.int64)
        np.add.at(total, alike, rows.weight)
        kept = representatives(alike, count)[total > 0]
        rows, owner, times = rows.take(kept), owner[kept], total[total > 0]
        placed = self.events.place(rows)
        row, window = self.frame.members(owner, placed.start, placed.end, spans)
        return self.module.cells(rows, row, window, times[row], spans)

    def _make_entries(self, events: Events, spans: Spans, partition: Codes) -> Entries:
        row, window = self.frame.members(events.owner, events.since, events.until, spans)
        count = np.bincount(window, events.weight[row], len(spans)).astype(np.int64)
        closes = self.frame.closes(spans.end)
        if self.module.node.ends_matter and len(row):
            end = events.end[row]
            closes = closes.copy()
            np.maximum.at(closes, window, np.where(end == INFINITY, end, end + 1))
        return self.windows.make(partition, spans.start, spans.end, closes, count)

    def _carry(
        self,
        arriving: Entries,
        old: Entries,
        match: Codes,
        delta: Delta,
        pairs: Pairs,
        stays: Bools,
    ) -> None:
        """Update the states of windows that have changed, where the module works in steps."""
        if not self.in_steps or not len(arriving):
            return
        number = np.full(len(stays), -1)
        number[~stays] = np.arange(len(arriving))
        has = match >= 0
        has[has] = np.array([state is not None for state in old.state[match[has]]], np.bool_)
        row, window, times = pairs
        if (times < 0).any() and not self.module.module.differential:
            has[number[window[times < 0]]] = False
        self.module.carry(arriving, old, match, has, delta, row, number[window], times)


def _has_pairs(delta: Delta) -> bool:
    return bool((delta.weight < 0).any())
