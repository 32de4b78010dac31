"""A module: a user's aggregate or operator, with all that the system needs to run it.

    kind         methods                                    per window
    aggregate    compute, or empty / add / result           one value
    operator     the same                                   any number of payloads, or of events

More methods give the system more freedom; none of them is needed:

    remove(state, delta)               undoes `add`: a revised window is not added up again
    merge(state, other)                two states as one: with `save` and `load`, windows are put
                                       together from panes
    save(state), load(bytes)           a state as bytes and back
    compute_groups(columns, offsets)   all windows in one call: rows offsets[i] .. offsets[i + 1]
                                       are window i
    partials(columns, offsets), merge_groups(states, offsets), results(states)
                                       the same in two steps, states being columns: panes,
                                       without a call per window

A time-sensitive module is given events instead of payloads, and the window as the last argument of
`compute`, `result`, `compute_groups` (`results` too).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError, did_you_mean, require_choice
from thalweg.model.type_names import TypeLike, arrow_type
from thalweg.udm.properties import Properties
from thalweg.udm.types import ANY, schema_of

__all__ = [
    "CLIPS",
    "NULLS",
    "STAMPS",
    "TAKES",
    "Clip",
    "Kind",
    "Module",
    "OutputLike",
    "Params",
    "Stamp",
]

Kind: TypeAlias = Literal["aggregate", "operator"]

TAKES = ("values", "rows", "numpy", "arrow", "pandas", "polars")
"""The shape of a module's input: tuple of values (of tuples, for several inputs), tuple of
read-only mappings, arrays, tables."""
NULLS = ("keep", "skip")


@dataclass(frozen=True, slots=True)
class Clip:
    """Where the lifetimes that a module sees are cut."""

    at_start: bool
    """At the start of the window."""
    at_end: bool
    """At the end of the window."""


CLIPS: Mapping[str, Clip] = {
    "none": Clip(at_start=False, at_end=False),
    "left": Clip(at_start=True, at_end=False),
    "right": Clip(at_start=False, at_end=True),
    "full": Clip(at_start=True, at_end=True),
}


@dataclass(frozen=True, slots=True)
class Stamp:
    """How long the output of a module lives."""

    by_window: bool = False
    """As long as the window, whatever the module says."""
    within_window: bool = False
    """Never longer than the window."""
    before_window: bool = False
    """Output may start before the window does."""
    from_change: bool = False
    """A change at a time t changes no output before t."""


STAMPS: Mapping[str, Stamp] = {
    "align": Stamp(by_window=True, within_window=True),
    "keep": Stamp(),
    "clip": Stamp(within_window=True),
    "time-bound": Stamp(from_change=True),
    "unrestricted": Stamp(before_window=True),
}

OutputLike: TypeAlias = "TypeLike | Mapping[str, TypeLike] | pa.Schema | Callable[[pa.Schema], Any]"
Params: TypeAlias = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Module:
    name: str
    """With its namespace, as in `finance.vwap`."""
    kind: Kind
    make: Callable[..., Any]
    """Called with the initialisation parameters; what it returns has the methods."""
    output: OutputLike
    inputs: tuple[tuple[str, TypeLike], ...] | None = None
    """Names and types; None: whatever columns the stream has."""
    version: str = "1"
    takes: str = "values"
    time_sensitive: bool = False
    nulls: str = "keep"
    """`skip`: rows with a null among the inputs are not shown to the module; with none left, an
    aggregate is null."""
    clip: str = "none"
    stamp: str = "align"
    """The defaults of the module, which a query may override."""
    properties: Properties = Properties()
    doc: str = ""
    origin: tuple[str, str] = ("", "")
    """The Python module and the qualified name it was defined under."""
    methods: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        where = f"module {self.name!r}"
        require_choice(self.takes, TAKES, f"{where}: takes")
        require_choice(self.clip, CLIPS, f"{where}: clip")
        require_choice(self.stamp, STAMPS, f"{where}: stamp")
        require_choice(self.nulls, NULLS, f"{where}: nulls")
        self._check_methods(where)
        self._check_time(where)

    def _check_methods(self, where: str) -> None:
        methods = self.methods
        one_of = {"compute", "compute_groups", "add", "partials"} & methods
        if not one_of:
            raise PlanError(
                f"{where} has nothing to compute with: write compute(payloads), or empty(), "
                "add(state, delta) and result(state)."
            )
        for trigger, needed in (
            ("add", {"empty", "result"}),
            ("remove", {"add"}),
            ("merge", {"add"}),
            ("save", {"load"}),
            ("load", {"save"}),
            ("partials", {"merge_groups", "results"}),
        ):
            missing = needed - methods if trigger in methods else set()
            if missing:
                raise PlanError(
                    f"{where} has {trigger}() but no {min(missing)}(); the two go together."
                )
        if "partials" in methods and not self.is_aggregate:
            raise PlanError(
                f"{where}: partials() are for aggregates; an operator has compute_groups()."
            )

    def _check_time(self, where: str) -> None:
        stamp = STAMPS[self.stamp]
        if not stamp.by_window and not self.time_sensitive:
            raise PlanError(
                f"{where}: only a time-sensitive module stamps its output; say time_sensitive=True,"
                " or leave stamp= out."
            )
        if self.properties.time_bound and not stamp.from_change:
            raise PlanError(
                f"{where}: time_bound=True goes with stamp='time-bound'; its stamp is "
                f"{self.stamp!r}."
            )
        for name in self.properties.commutes_with_filter:
            if self.inputs is not None and name not in dict(self.inputs):
                raise PlanError(
                    f"{where}: commutes_with_filter names {name!r}, which is no "
                    f"input{did_you_mean(name, dict(self.inputs))}"
                )

    # --------------------------------------------------------------------------------------------
    # facts

    @property
    def label(self) -> str:
        return f"{self.name}@{self.version}"

    def __repr__(self) -> str:
        return f"<{self.kind} {self.label}>"

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def is_aggregate(self) -> bool:
        """Whether it gives one value for each window, not any number of rows."""
        return self.kind == "aggregate"

    @property
    def incremental(self) -> bool:
        return "add" in self.methods

    @property
    def differential(self) -> bool:
        return "remove" in self.methods

    @property
    def mergeable(self) -> bool:
        return "merge" in self.methods or "partials" in self.methods

    @property
    def in_columns(self) -> bool:
        """Whether all windows are computed in one call."""
        return bool({"compute_groups", "partials"} & self.methods)

    @property
    def has_partials(self) -> bool:
        """Whether a state can be written as columns, so that windows may be put together from
        panes."""
        return "partials" in self.methods or {"merge", "save", "load"} <= self.methods

    # --------------------------------------------------------------------------------------------
    # types

    def input_types(self) -> dict[str, pa.DataType | None] | None:
        """The declared types of the inputs by name; a type of None takes any."""
        if self.inputs is None:
            return None
        return {
            name: None if kind == ANY else arrow_type(kind, f"module {self.name!r}, input {name!r}")
            for name, kind in self.inputs
        }

    def output_schema(self, inputs: pa.Schema, name: str | None = None) -> pa.Schema:
        """The columns it gives for inputs of these types; an aggregate gives one, called `name`."""
        where = f"module {self.name!r}, output"
        found: Any = self.output
        if callable(found) and not isinstance(found, pa.DataType):
            found = found(inputs)
        if self.is_aggregate:
            if isinstance(found, (Mapping, pa.Schema)):
                raise TypeMismatchError(
                    f"{where}: an aggregate gives one value; say its type, or make it an operator."
                )
            return pa.schema([(name or self.short_name, arrow_type(found, where))])
        if isinstance(found, (str, pa.DataType)):
            raise TypeMismatchError(
                f"{where}: an operator gives payloads; say their columns, as in {{'name': 'type'}}."
            )
        return schema_of(found, where)

    def instance(self, params: Params) -> Any:
        """The object that computes."""
        try:
            return self.make(**dict(params))
        except TypeError as reason:
            raise PlanError(
                f"module {self.name!r} does not take these parameters: {reason}. It takes "
                f"{self.signature() or 'none'}."
            ) from reason

    def signature(self) -> str:
        """Its initialisation parameters, in words."""
        try:
            found = inspect.signature(self.make).parameters.values()
        except (TypeError, ValueError):
            return ""
        return ", ".join(
            str(entry) for entry in found if entry.kind is not inspect.Parameter.VAR_KEYWORD
        )
