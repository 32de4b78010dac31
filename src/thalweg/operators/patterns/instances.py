"""Instances of a regular pattern, all at once: every event may begin one, and all that are alive
read their next event in the same step.

A thread is an instance in one state of the automaton with its registers. The number of steps is
that of the longest instance; the work is the sum of their lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.expr import Expr, Frame
from thalweg.model.rows import Bools, Codes, take_column, whole_column
from thalweg.model.time import Times
from thalweg.operators.frames import evaluate_mask
from thalweg.plan.nodes.detect import Detect

__all__ = ["Events", "Found", "Matcher", "reachable"]


@dataclass(frozen=True, slots=True)
class Events:
    """Events ordered by key and time. `columns` has what conditions read, beside the time, and
    `row` where each event stands in them; `true` has conditions that were evaluated before, by the
    place of their event in the automaton."""

    key: Codes
    time: Times
    columns: dict[str, pa.Array]
    row: Codes
    true: tuple[Bools, ...] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Matches: position of the first and the last event, values of the registers. `alive` is the
    position of the last event after which an instance goes on, by the position of its first."""

    first: Codes
    last: Codes
    registers: list[pa.Array]
    alive: Codes


@dataclass(frozen=True, slots=True)
class _Threads:
    first: Codes
    state: Codes
    registers: dict[str, pa.Array]

    def take(self, which: Codes) -> _Threads:
        if len(which) == len(self.first):  # positions ascend: all of them
            return self
        return _Threads(
            self.first[which],
            self.state[which],
            {name: take_column(values, which) for name, values in self.registers.items()},
        )


@dataclass(frozen=True, slots=True)
class _Arc:
    """What an event must fulfil to take a thread to another state, and what it changes."""

    target: int
    condition: Expr
    keep: dict[str, Expr]
    columns: frozenset[str]
    """The columns of the event that these read, beside its time."""
    reads_time: bool


class Matcher:
    """The automaton of a node, ready to read events."""

    def __init__(self, node: Detect) -> None:
        automaton = node.automaton
        self._within = node.within
        self._registers = {register.name: register for register in node.registers}
        self._arcs: list[list[_Arc]] = [[] for _ in range(len(automaton.events) + 1)]
        """By the state that they lead on from."""
        for source, target in automaton.arcs:
            event = automaton.events[target - 1]
            needed = event.condition.columns().union(*(value.columns() for _, value in event.keep))
            columns = needed - self._registers.keys() - {"_start"}
            arc = _Arc(target, event.condition, dict(event.keep), columns, "_start" in needed)
            self._arcs[source].append(arc)
        self.columns = frozenset(
            name for arcs in self._arcs for arc in arcs for name in arc.columns
        )
        states = range(len(self._arcs))
        self._final = np.array([state in automaton.final for state in states])
        self._open = np.array([state in automaton.open for state in states])

    def find(self, events: Events, starts: Codes) -> Found:
        """All matches of instances that begin at these positions."""
        size = len(events.time)
        alive = np.full(size, -1)
        threads = _Threads(
            starts,
            np.zeros(len(starts), np.int64),
            {
                name: pa.repeat(pa.scalar(register.initial, register.type), len(starts))
                for name, register in self._registers.items()
            },
        )
        found: list[_Threads] = []
        lasts: list[Codes] = [np.empty(0, np.int64)]
        offset = 0
        while len(threads.first):
            threads = self._step(events, threads, threads.first + offset)
            position = threads.first + offset
            final = self._final[threads.state].nonzero()[0]
            if len(final):
                found.append(threads.take(final))
                lasts.append(position[final])
            goes_on = self._open[threads.state].nonzero()[0]
            first, position = threads.first[goes_on], position[goes_on]
            alive[first] = position
            following = np.minimum(position + 1, size - 1)
            reads = (position < following) & (events.key[following] == events.key[first])
            reads &= events.time[following] - events.time[first] < self._within
            threads = threads.take(goes_on[reads])
            offset += 1
        every = self._concat(found)
        return Found(every.first, np.concatenate(lasts), list(every.registers.values()), alive)

    def _step(self, events: Events, threads: _Threads, position: Codes) -> _Threads:
        """Every thread one event further, along all arcs that take the event."""
        moved: list[_Threads] = []
        for state, arcs in enumerate(self._arcs):
            if not arcs:
                continue
            here = (threads.state == state).nonzero()[0]
            if len(here):
                some, at = threads.take(here), position[here]
                moved += [self._along(events, some, at, arc) for arc in arcs]
        return self._concat([part for part in moved if len(part.first)])

    def _along(self, events: Events, threads: _Threads, position: Codes, arc: _Arc) -> _Threads:
        """The threads that an arc takes one event further."""
        row = events.row[position]
        columns = {
            name: take_column(events.columns[name], row)
            for name in arc.columns
            if name in events.columns
        }
        if arc.reads_time:
            columns["_start"] = whole_column(events.time[position])
        frame = Frame({**columns, **threads.registers}, len(position))
        if events.true is None:
            mask = evaluate_mask(arc.condition, frame)
        else:
            mask = events.true[arc.target - 1][position]
        passed = mask.nonzero()[0]
        taken = threads.take(passed)
        registers = dict(taken.registers)
        for name, value in arc.keep.items():
            array, kind = value.evaluate(frame), self._registers[name].type
            array = take_column(array, passed)
            registers[name] = array if array.type == kind else array.cast(kind)
        return _Threads(taken.first, np.full(len(passed), arc.target), registers)

    def _concat(self, parts: list[_Threads]) -> _Threads:
        if len(parts) == 1:
            return parts[0]
        none = np.empty(0, np.int64)
        return _Threads(
            np.concatenate([none, *(part.first for part in parts)]),
            np.concatenate([none, *(part.state for part in parts)]),
            {
                name: pa.concat_arrays(
                    [pa.array([], register.type), *(part.registers[name] for part in parts)]
                )
                for name, register in self._registers.items()
            },
        )


def reachable(key: Codes, begin: Codes, following: Codes) -> Bools:
    """Which positions a walk reaches that begins at `begin` of each key and goes on at
    `following` while the key is the same. In steps of powers of two.

    >>> reachable(np.array([0, 0, 0, 1]), np.array([0, 3]), np.array([2, 2, 3, 4])).tolist()
    [True, False, True, True]
    """
    size = len(key)
    jump = np.append(np.minimum(following, size), size)
    inside = jump[:-1] < size
    same = np.zeros(size, np.bool_)
    same[inside] = key[jump[:-1][inside]] == key[inside]
    jump[:-1][~same] = size
    reached = np.zeros(size + 1, np.bool_)
    reached[begin] = True
    while True:
        reached[jump[np.flatnonzero(reached)]] = True
        if (jump == size).all():
            return reached[:-1]
        jump = jump[jump]
