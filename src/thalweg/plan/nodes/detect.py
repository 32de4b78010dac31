"""Regular patterns: runs of events, for each key, that an automaton recognises."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError, UnknownColumnError
from thalweg.model.clocks import lasting
from thalweg.plan.automata import Automaton, Pattern
from thalweg.plan.nodes.base import Node
from thalweg.plan.nodes.families import GroupedOperator, show_keys
from thalweg.plan.nodes.schemas import lifetime_schema, require_condition, require_known
from thalweg.plan.properties import StreamProperties

__all__ = ["Detect", "Register", "Simultaneous"]

Simultaneous = Literal["sequence", "set"]


@dataclass(frozen=True, slots=True)
class Register:
    """What a match gathers: a name, a type, and the value it begins with."""

    name: str
    type: pa.DataType
    initial: Any = None


@dataclass(frozen=True, eq=False)
class Detect(GroupedOperator):
    """R' = {(t, s + within, keys + registers) | a run of events from s to t matches}.

    The events of a key stand in the order of their starts, ties by all columns. An instance begins
    at an event that an arc from the first state takes. Every further event of the key must take an
    arc, or the instance ends there; it also ends `within` after its first event. Each time it comes
    into a final state there is a match, at the time of that event. Where several arcs take an event
    the instance goes on along all of them.

    Without `overlap` no instance begins while another one of its key may still go on. With
    `simultaneous="set"` all events of a key and time are taken together.
    """

    input: Node
    pattern: Pattern
    within: int
    registers: tuple[Register, ...]
    keys: tuple[str, ...] = ()
    overlap: bool = True
    simultaneous: Simultaneous = "sequence"

    never_revises = False
    covers_windows = False
    reach = None
    state = "events that a match may still need"
    promise = "t"

    def __post_init__(self) -> None:
        if self.within <= 0:
            raise PlanError(f"detect: within must be positive; got {self.within}.")
        require_known(self.keys, self.input.schema, "detect")
        if not self.registers and not self.keys:
            raise PlanError("detect: a match needs a column: give registers, or keys.")
        for register in self.registers:
            if register.name in self.input.schema.names:
                raise PlanError(
                    f"detect: the stream has a column {register.name!r}; name the register "
                    "otherwise."
                )
        self._check_events()
        schema = pa.schema(
            [
                *(self.input.schema.field(name) for name in self.keys),
                *(pa.field(register.name, register.type) for register in self.registers),
            ]
        )
        self._settle(schema, StreamProperties(firm_ends=True))

    @cached_property
    def automaton(self) -> Automaton:
        return Automaton.of(self.pattern)

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.keys

    @property
    def details(self) -> str:
        return f"{self.pattern} within {lasting(self.within)}{show_keys(self.keys)}"

    def event_schema(self) -> pa.Schema:
        """What conditions and `keep` expressions read: the event, its start, the registers."""
        registers = [(register.name, register.type) for register in self.registers]
        return pa.schema([*lifetime_schema(self.input.schema), *map(_field, registers)])

    def _check_events(self) -> None:
        schema = self.event_schema()
        types = {register.name: register.type for register in self.registers}
        for event in self.automaton.events:
            require_condition(event.condition, schema, "detect: a condition of the pattern")
            if event.absent and self.simultaneous != "set":
                raise PlanError('detect: no_event(...) needs simultaneous="set".')
            for name, value in event.keep:
                if name not in types:
                    raise UnknownColumnError(name, tuple(types), "detect: keep")
                kind = value.type_in(schema)
                if kind != types[name] and not pa.types.is_null(kind):
                    raise TypeMismatchError(
                        f"detect: the register {name!r} is {types[name]}; {value} is {kind}."
                    )
            if self.simultaneous == "set":
                self._refuse_single_events(event.condition.columns(), types, reads=False)
                for _, value in event.keep:
                    self._refuse_single_events(value.columns(), types, reads=True)

    def _refuse_single_events(
        self, columns: frozenset[str], types: dict[str, pa.DataType], *, reads: bool
    ) -> None:
        wrong = columns - types.keys() if reads else columns & types.keys()
        if wrong:
            what = "keep reads a column of one event" if reads else "a condition reads a register"
            raise PlanError(
                f"detect: {what} ({min(wrong)!r}), but events of one time are taken as a set."
            )


def _field(named: tuple[str, pa.DataType]) -> pa.Field:
    return pa.field(*named)
