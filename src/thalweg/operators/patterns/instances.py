"""Instances of a regular pattern, all at once: every event may begin one, and all that are alive
read their next event in the same step.

A thread is an instance in one state of the automaton with its registers. The number of steps is
that of the longest instance; the work is the sum of their lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.expr import Frame
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import Times
from thalweg.operators.frames import evaluate_mask
from thalweg.plan.nodes.detect import Detect

__all__ = ["Events", "Found", "find", "reachable"]


@dataclass(frozen=True, slots=True)
class Events:
    """Events ordered by key and time. `columns` has what conditions read; `true` has conditions
    that were evaluated before, by the place of their event in the automaton."""

    key: Codes
    time: Times
    columns: dict[str, pa.Array]
    true: tuple[Bools, ...] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Matches: position of the first and the last event, values of the registers. `alive` is the
    position of the last event after which an instance goes on, by the position of its first."""

    first: Codes
    last: Codes
    registers: Rows
    alive: Codes


@dataclass(frozen=True, slots=True)
class _Threads:
    first: Codes
    state: Codes
    registers: dict[str, pa.Array]

    def take(self, which: Codes) -> _Threads:
        at = pa.array(which)
        return _Threads(
            self.first[which],
            self.state[which],
            {name: values.take(at) for name, values in self.registers.items()},
        )


def find(node: Detect, events: Events, starts: Codes) -> Found:
    """All matches of instances that begin at these positions."""
    schema = pa.schema([(register.name, register.type) for register in node.registers])
    size = len(events.time)
    alive = np.full(size, -1)
    threads = _Threads(
        starts,
        np.zeros(len(starts), np.int64),
        {
            register.name: pa.array([register.initial] * len(starts), register.type)
            for register in node.registers
        },
    )
    found: list[tuple[_Threads, Codes]] = []
    offset = 0
    while len(threads.first):
        position = threads.first + offset
        moved = [_take_arc(node, events, threads, position, arc) for arc in node.automaton.arcs]
        threads = _concat(moved, schema)
        position = threads.first + offset
        final = np.isin(threads.state, list(node.automaton.final))
        if final.any():
            found.append((threads.take(np.flatnonzero(final)), position[final]))
        goes_on = np.isin(threads.state, list(node.automaton.open))
        alive[threads.first[goes_on]] = position[goes_on]
        following = np.minimum(position + 1, size - 1)
        goes_on &= position + 1 < size
        goes_on &= events.key[following] == events.key[threads.first]
        goes_on &= events.time[following] - events.time[threads.first] < node.within
        threads = threads.take(np.flatnonzero(goes_on))
        offset += 1
    every = _concat([part for part, _ in found], schema)
    last = np.concatenate([np.empty(0, np.int64), *(position for _, position in found)])
    arrays = [every.registers[name] for name in schema.names]
    registers = (
        pa.RecordBatch.from_arrays(arrays, schema=schema)
        if arrays
        else pa.RecordBatch.from_struct_array(pa.array([{}] * len(last), pa.struct([])))
    )
    return Found(every.first, last, registers, alive)


def _take_arc(
    node: Detect, events: Events, threads: _Threads, position: Codes, arc: tuple[int, int]
) -> _Threads:
    """The threads that an arc takes one event further."""
    source, target = arc
    here = np.flatnonzero(threads.state == source)
    if not len(here):
        return threads.take(here)
    there = threads.take(here)
    event = node.automaton.events[target - 1]
    needed = event.condition.columns().union(*(value.columns() for _, value in event.keep))
    at = pa.array(position[here])
    columns = {name: events.columns[name].take(at) for name in needed & events.columns.keys()}
    frame = Frame({**columns, **there.registers}, len(here))
    if events.true is None:
        mask = evaluate_mask(event.condition, frame)
    else:
        mask = events.true[target - 1][position[here]]
    passed = np.flatnonzero(mask)
    taken = there.take(passed)
    registers = dict(taken.registers)
    for register in node.registers:
        value = dict(event.keep).get(register.name)
        if value is not None:
            array = value.evaluate(frame).take(pa.array(passed))
            registers[register.name] = (
                array if array.type == register.type else array.cast(register.type)
            )
    return _Threads(taken.first, np.full(len(passed), target), registers)


def _concat(parts: list[_Threads], schema: pa.Schema) -> _Threads:
    none = np.empty(0, np.int64)
    return _Threads(
        np.concatenate([none, *(part.first for part in parts)]),
        np.concatenate([none, *(part.state for part in parts)]),
        {
            field.name: pa.concat_arrays(
                [pa.array([], field.type), *(part.registers[field.name] for part in parts)]
            )
            for field in schema
        },
    )


def reachable(key: Codes, begin: Codes, following: Codes) -> Bools:
    """Which positions a walk comes to that begins at `begin` of each key and goes on at
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
