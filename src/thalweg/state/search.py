"""Search in a run: the rows of a group that end after a time, or the nearest end.

All functions take many probes at once. A run with the number 0 is an unsorted tail.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Bools, Codes
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.state.runs import Run

__all__ = [
    "candidates",
    "ended",
    "latest_end_before",
    "occurrence",
    "of_groups",
    "of_lifetime",
    "overlapping",
    "soonest_end_after",
    "spread",
]

_SQUARE = 8_192
"""Up to this many pairs of a probe and a row of the tail are compared directly."""


def overlapping(run: Run, group: Codes, since: Times, until: Times) -> tuple[Codes, Codes]:
    """Pairs of a probe and a position of a living row of its group that ends after `since` and
    starts before `until`."""
    if _is_few(run, group):
        rows = run.rows
        table = _alike(run, group)
        table &= rows.end > since[:, None]
        table &= rows.start < until[:, None]
        owner, at = table.nonzero()
        return owner, at
    owner, at = candidates(run, group, since, until)
    if not len(at):
        return owner, at
    hit = (run.rows.ends(at) > since[owner]) & (run.rows.start[at] < until[owner])
    if run.dead:
        hit &= run.rows.weights(at) != 0
    return (owner, at) if hit.all() else (owner[hit], at[hit])


def of_groups(run: Run, group: Codes, after: int) -> tuple[Codes, Codes]:
    """Pairs of a probe and a position of a living row of its group that ends after a time."""
    if _is_few(run, group):
        table = _alike(run, group)
        if run.soonest <= after:
            table &= run.rows.end > after
        owner, at = table.nonzero()
        return owner, at
    owner, at = candidates(run, group, np.full(len(group), after))
    if run.soonest > after and not run.dead:
        return owner, at
    hit = run.rows.ends(at) > after
    if run.dead:
        hit &= run.rows.weights(at) != 0
    return owner[hit], at[hit]


def of_lifetime(run: Run, group: Codes, start: Times, end: Times) -> tuple[Codes, Codes]:
    """Pairs of a probe and a position of a living row of its group that starts and ends exactly at
    its times."""
    rows = run.rows
    if _is_few(run, group):
        table = _alike(run, group)
        table &= rows.end == end[:, None]
        table &= rows.start == start[:, None]
        owner, at = table.nonzero()
        return owner, at
    # The runs of one slot hold a narrow range of ends: most probes are not for it.
    near = ((end >= run.soonest) & (end <= run.last)).nonzero()[0]
    group, start, end = group[near], start[near], end[near]
    if run.number:
        owner, at = spread(*run.span_at(group, end))
        at = run.order[at]
    else:
        owner, at = candidates(run, group, end)
    equal = (rows.start[at] == start[owner]) & (rows.ends(at) == end[owner])
    if run.dead:
        equal &= rows.weights(at) != 0
    return near[owner[equal]], at[equal]


def _is_few(run: Run, group: Codes) -> bool:
    """Whether each probe is compared with each row of the tail."""
    return not run.number and len(group) * len(run) <= _SQUARE


def _alike(run: Run, group: Codes) -> Bools:
    """For each probe and each row of a run: whether the row lives and has the probe's group."""
    table: Bools = group[:, None] == run.rows.group
    if run.dead:
        table &= run.rows.weight != 0
    return table


def candidates(
    run: Run, group: Codes, since: Times, until: Times | None = None
) -> tuple[Codes, Codes]:
    """Pairs of a probe and the position of a row of its group: at least those that end after
    `since` and start before `until`."""
    if run.number:
        owner, at = spread(*run.span(group, since, until))
        return owner, run.order[at]
    if _is_few(run, group):
        probe, at = _alike(run, group).nonzero()
        return probe, at
    order = run.rows.group.argsort(kind="stable")
    ordered = run.rows.group[order]
    owner, at = spread(ordered.searchsorted(group), ordered.searchsorted(group, "right"))
    return owner, order[at]


def ended(run: Run, group: Codes, until: Times) -> tuple[Codes, Codes]:
    """Pairs of a probe and a position of a living row of its group that ends at a time or
    before."""
    owner, at = candidates(run, group, np.full(len(group), MIN_TIME))
    hit = (run.rows.ends(at) <= until[owner]) & (run.rows.weights(at) != 0)
    return owner[hit], at[hit]


def latest_end_before(run: Run, group: Codes, times: Times) -> Times:
    """For each probe the latest end before a time of a living row of its group; MIN_TIME: none."""
    if _is_few(run, group):
        table = _alike(run, group)
        table &= run.rows.end < times[:, None]
        found: Times = np.where(table, run.rows.end, MIN_TIME).max(axis=1)
        return found
    if not run.number:
        latest = np.full(len(group), MIN_TIME)
        owner, at = candidates(run, group, times)
        ends = run.rows.ends(at)
        hit = (ends < times[owner]) & (run.rows.weights(at) != 0)
        np.maximum.at(latest, owner[hit], ends[hit])
        return latest
    at, order = _first_reaching(run, group, times) - 1, run.order
    while True:
        here = order[at]
        inside = (at >= 0) & (run.rows.group[here] == group)
        dead = inside & (run.rows.weights(here) == 0)
        if not dead.any():
            return np.where(inside, run.rows.ends(here), MIN_TIME)
        at = np.where(dead, at - 1, at)


def soonest_end_after(run: Run, group: Codes, times: Times) -> Times:
    """For each probe the earliest end after a time of a living row of its group; INFINITY: none.
    Rows without an end do not count."""
    if _is_few(run, group):
        table = _alike(run, group)
        table &= run.rows.end > times[:, None]
        first: Times = np.where(table, run.rows.end, INFINITY).min(axis=1)
        return first
    if not run.number:
        soonest = np.full(len(group), INFINITY)
        owner, at = candidates(run, group, times)
        ends = run.rows.ends(at)
        hit = (ends > times[owner]) & (run.rows.weights(at) != 0)
        np.minimum.at(soonest, owner[hit], ends[hit])
        return soonest
    at, order = _first_reaching(run, group, times, passing=True), run.order
    last = len(run) - 1
    while True:
        here = order[np.minimum(at, last)]
        inside = (at <= last) & (run.rows.group[here] == group)
        dead = inside & (run.rows.weights(here) == 0)
        if not dead.any():
            return np.where(inside, run.rows.ends(here), INFINITY)
        at = np.where(dead, at + 1, at)


def _first_reaching(run: Run, group: Codes, times: Times, *, passing: bool = False) -> Codes:
    """For each probe the position in `order` of the first row of its group that ends at its time or
    later (with `passing`: later), or the position after the group's last row. Rows whose ends have
    the same leading bits are sorted by end."""
    low, high = run.span_at(group, times)
    order = run.order
    while True:
        open_ = low < high
        if not open_.any():
            return low
        middle = np.where(open_, (low + high) // 2, 0)
        ends = run.rows.ends(order[middle])
        early = open_ & (ends <= times if passing else ends < times)
        low = np.where(early, middle + 1, low)
        high = np.where(open_ & ~early, middle, high)


def spread(low: Codes, high: Codes) -> tuple[Codes, Codes]:
    """Every position of [low, high) for each i: (which i, which position)."""
    count = np.maximum(high - low, 0)
    owner = np.repeat(np.arange(len(count)), count)
    if not len(owner):
        return owner, owner
    return owner, low[owner] + np.arange(len(owner)) - (count.cumsum() - count)[owner]


def occurrence(code: Codes) -> Codes:
    """How many items of equal code stand before each one.

    >>> occurrence(np.array([5, 5, 2, 5])).tolist()
    [0, 1, 0, 2]
    """
    order = code.argsort(kind="stable")
    ordered = code[order]
    rank = np.empty(len(code), np.int64)
    rank[order] = np.arange(len(code)) - ordered.searchsorted(ordered)
    return rank
