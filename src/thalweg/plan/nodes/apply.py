"""A module over the windows of a stream: user-defined aggregates and operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError, require_choice
from thalweg.plan.expressions import show_columns
from thalweg.plan.nodes.base import Grid, Named, Node
from thalweg.plan.nodes.families import GroupedOperator, columns_of, show_keys
from thalweg.plan.nodes.schemas import columns_schema, lifetime_schema, require_known
from thalweg.plan.properties import StreamProperties
from thalweg.udm.module import CLIPS, STAMPS, Module, Params, Stamp
from thalweg.udm.types import fits
from thalweg.windows import Window

__all__ = ["ON_ERROR", "ModuleOperator", "WindowApply"]

ON_ERROR = ("fail", "skip")
"""What becomes of a window that a module fails on: it ends the query, or has no answer."""


class ModuleOperator:
    """What is true of every operator that runs a module: its inputs, and what may be asked of
    it."""

    input: Node
    module: Module
    arguments: Named
    params: Params
    clip: str
    stamp: str
    on_error: str
    time_limit: float | None

    @property
    def stamping(self) -> Stamp:
        """How long its output lives."""
        return STAMPS[self.stamp]

    @property
    def ends_query(self) -> bool:
        """Whether a window that the module fails on ends the query."""
        return self.on_error == "fail"

    @property
    def shown_call(self) -> str:
        """The module with its inputs and parameters, for `explain()`."""
        params = "".join(f"; {name} = {value!r}" for name, value in self.params)
        return f"{self.module.label}({show_columns(self.arguments)}{params})"

    def _check_module(self, where: str) -> None:
        require_choice(self.clip, CLIPS, f"{where}: clip")
        require_choice(self.stamp, STAMPS, f"{where}: stamp")
        require_choice(self.on_error, ON_ERROR, f"{where}: on_error")
        if not self.module.time_sensitive and not self.stamping.by_window:
            raise PlanError(
                f"{where}: the module is not time-sensitive, so its output lives as long as the "
                "window; leave stamp= out."
            )
        if self.time_limit is not None and self.time_limit <= 0:
            raise PlanError(f"{where}: the time limit must be positive; got {self.time_limit}.")
        input_types = self.module.input_types()
        if input_types is not None and [name for name, _ in self.arguments] != list(input_types):
            raise TypeMismatchError(
                f"{where}: it takes {', '.join(input_types)}; got "
                f"{', '.join(name for name, _ in self.arguments)}."
            )

    def input_schema(self) -> pa.Schema:
        """The columns that the module receives, in the types it declares; the arguments must fit
        these types."""
        schema = columns_schema(self.arguments, lifetime_schema(self.input.schema))
        input_types = self.module.input_types()
        if input_types is None:
            return schema
        fields = []
        for entry, kind in zip(schema, input_types.values(), strict=True):
            if kind is not None and not fits(entry.type, kind):
                expr = dict(self.arguments)[entry.name]
                where = f"apply({self.module.name!r}): the input {entry.name!r}"
                raise TypeMismatchError(
                    f"{where} is {kind}; {expr} is {entry.type}. Convert it with CAST(... AS ...)."
                )
            fields.append(pa.field(entry.name, entry.type if kind is None else kind))
        return pa.schema(fields)


@dataclass(frozen=True, eq=False)
class WindowApply(ModuleOperator, GroupedOperator):
    """Per group and window with at least one row, what the module makes of the window's rows, in
    canonical order.

    With a = window start, b = window end, each row (s, e, p) of the window reaches the module as
    (s', e', arguments(p, s)) where s' = max(s, a) for `clip` left and full, and e' = min(e, b) for
    right and full. The output of an aggregate is one value, that of an operator any number of
    payloads; each becomes a row (s'', e'', keys + output): [a, b) for `stamp` align; as the module
    stamped it for keep, time-bound and unrestricted (the first two refuse a stamp before a); cut to
    [a, b) for clip.
    """

    input: Node
    window: Window
    module: Module
    arguments: Named
    params: Params = ()
    keys: tuple[str, ...] = ()
    clip: str = "none"
    stamp: str = "align"
    on_error: str = "fail"
    time_limit: float | None = None
    """Seconds that one call may take."""
    name: str | None = None
    """What the value of an aggregate is called."""

    not_state: ClassVar[frozenset[str]] = frozenset({"time_limit"})
    state_version: ClassVar[int] = 5

    never_revises = True
    covers_windows = True
    state = "windows that are not closed, their rows, and what they have answered"

    def __post_init__(self) -> None:
        where = f"apply({self.module.name!r})"
        require_known(self.keys, self.input.schema, where)
        self._check_choices(where)
        outputs = self.module.output_schema(self.input_schema(), self.name)
        clash = [name for name in outputs.names if name in self.keys]
        if clash:
            raise PlanError(f"{where}: the output {clash[0]!r} is also a key; rename one of them.")
        self.module.instance(self.params)
        size = self.window.length if self.stamping.by_window else None
        single = self.module.is_aggregate and self.stamping.by_window
        facts = StreamProperties(
            unique_start=single,
            payload_start_key=single,
            constant_duration=size,
            firm_ends=size is not None,
            group_keys=self.keys,
        )
        self._settle(
            pa.schema([*(self.input.schema.field(key) for key in self.keys), *outputs]), facts
        )

    def _check_choices(self, where: str) -> None:
        self._check_module(where)
        if not self.module.time_sensitive and self.clip != "none":
            raise PlanError(
                f"{where}: the module is not time-sensitive, so there is nothing to clip; leave "
                "clip= out."
            )
        if self.stamping.from_change and self.window.no_time_bound is not None:
            raise PlanError(f"{where}: {self.window.no_time_bound}")

    # --------------------------------------------------------------------------------------------
    # facts

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.keys

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns in front of what the module gives."""
        return self.keys

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        return (columns_of(*(expr for _, expr in self.arguments)).union(self.keys),)

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return None if self.ends_matter or self.passes_cti else self.window.closing_grid

    @property
    def reach(self) -> int | None:
        """A row belongs to windows that begin before it ends, and their answers end with them."""
        if not self.stamping.within_window or self.ends_matter:
            return None
        return self.window.reach

    @property
    def promise(self) -> str:
        if self.passes_cti:
            return "t"
        if self.stamping.before_window:
            return "nothing before the end"
        return self.window.promise

    @property
    def details(self) -> str:
        text = f"{self.window}{show_keys(self.keys)}: {self.shown_call}"
        text += f", clip {self.clip}" if self.clip != "none" else ""
        text += "" if self.stamping.by_window else f", stamp {self.stamp}"
        return text + ("" if self.ends_query else f", errors {self.on_error}")

    def remarks(self) -> Iterator[str]:
        return iter(self.gains())

    @property
    def ends_matter(self) -> bool:
        """Whether the module sees where events end beyond the window, so that a window waits for
        the ends of its events."""
        return (
            self.module.time_sensitive
            and not CLIPS[self.clip].at_end
            and not self.module.properties.ignores_ends
        )

    @property
    def passes_cti(self) -> bool:
        """Whether the input's CTI is that of the output: in front of a cut a window that is only
        cut keeps its value."""
        if self.stamping.from_change:
            return True
        steady = not self.module.time_sensitive and self.module.properties.deterministic
        return self.window.only_cut and self.stamping.by_window and steady

    @property
    def in_panes(self) -> bool:
        """Whether windows are put together from states of panes: rows need not be kept, so none may
        be taken back."""
        return (
            self.window.grid is not None
            and self.module.has_partials
            and self.module.is_aggregate
            and not self.module.time_sensitive
            and self.input.properties.insert_only
            and self.ends_query
            and (self.module.takes == "values" or "partials" in self.module.methods)
        )

    @property
    def at_once(self) -> bool:
        """Whether windows are computed from their rows, all in one call, when they answer and when
        they are taken back: nothing but rows need be kept. Rows of windows by end come in the order
        of their ends."""
        module = self.module
        return (
            module.in_columns
            and module.properties.deterministic
            and not module.time_sensitive
            and self.ends_query
            and self.window.grid is None
            and (self.window.instant != "end" or module.properties.any_order)
        )

    def gains(self) -> list[str]:
        """What each declared property buys here, for `explain()`."""
        return [*self._gains_in_work(), self._gain_in_state(), *self._gains_in_order()]

    def _gains_in_work(self) -> Iterator[str]:
        """How the value of a window is computed."""
        module = self.module
        if self.in_panes:
            yield "mergeable: windows are put together from panes, rows are not kept"
        elif module.mergeable:
            yield (
                "mergeable: of no use here (panes need a hopping window, insert_only input and "
                "saved states)"
            )
        if module.incremental and not (self.in_panes or self.at_once):
            how = (
                "differential: rows taken back are removed"
                if module.differential
                else "rows taken back make a window start again"
            )
            yield f"incremental: a revised window sees only what changed; {how}"
        if module.in_columns:
            yield "vectorised: all windows of a batch in one call"
        if self.at_once:
            yield "deterministic: all answers are computed again rather than kept"
        elif module.properties.deterministic:
            yield "deterministic: long answers are computed again rather than kept"

    def _gain_in_state(self) -> str:
        """When a window and its rows are dropped."""
        over = "a window and its rows are dropped when the CTI reaches the window's end"
        if self.module.properties.ignores_ends:
            return f"ignores ends: {over}"
        if not self.module.time_sensitive:
            return f"not time-sensitive: {over}"
        if not self.ends_matter:
            return f"right clipping: {over}"
        return "ends matter: a window waits until the CTI has passed the ends of its rows"

    def _gains_in_order(self) -> Iterator[str]:
        """What goes on to the next operator, what comes in, and which rows windows to come need."""
        facts = self.module.properties
        if self.passes_cti:
            yield "time-bound: the CTI of the input is the CTI of the output"
        elif self.stamping.before_window:
            yield "unrestricted stamps: no CTI comes out before the end"
        if facts.ordered:
            yield "ordered: the rows of a window are not sorted again"
        if facts.any_order:
            yield "any order: the rows of a window are not sorted first"
        if facts.commutes_with_filter and self.window.grid is not None:
            columns = ", ".join(facts.commutes_with_filter)
            yield f"commutes with filters on {columns}: they run below the module"
        if self.window.remark is not None:
            yield self.window.remark
