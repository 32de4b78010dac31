"""Nodes that change the lifetime of each row by itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from thalweg.errors import WindowError
from thalweg.expr import Expr
from thalweg.model.clocks import lasting
from thalweg.model.time import INFINITY
from thalweg.plan.nodes.base import Grid, Node
from thalweg.plan.nodes.families import LifetimeOperator
from thalweg.plan.nodes.schemas import lifetime_schema, require_ticks

__all__ = [
    "AlterLifetime",
    "Chop",
    "ClipDuration",
    "Extend",
    "HoppingLifetime",
    "PointAtEnd",
    "Quantize",
    "SetDuration",
    "Shift",
]


@dataclass(frozen=True, eq=False)
class SetDuration(LifetimeOperator):
    """R' = {(s, s + ticks, p)}; infinite ticks: [s, infinity)."""

    input: Node
    ticks: int

    def __post_init__(self) -> None:
        if self.ticks <= 0:
            raise WindowError(f"set_duration: a duration must be positive; got {self.ticks}.")
        duration = None if self.ticks == INFINITY else self.ticks
        self._settle(
            self.input.schema, self.input.properties.but(constant_duration=duration, firm_ends=True)
        )

    @cached_property
    def endless_by(self) -> Node | None:
        return self if self.ticks == INFINITY else None

    @property
    def reach(self) -> int | None:
        """s < e, so that s + ticks < e + ticks."""
        return None if self.ticks == INFINITY else self.ticks

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return output_grid

    @property
    def details(self) -> str:
        return _ticks(self.ticks)


@dataclass(frozen=True, eq=False)
class AlterLifetime(LifetimeOperator):
    """R' = {(f(s, p), f(s, p) + ticks, p)}: starts from an expression over `_start` and the
    payload, one duration for all."""

    input: Node
    start: Expr
    ticks: int

    promise = "what follows from the promises for the columns it reads"

    def __post_init__(self) -> None:
        if self.ticks <= 0:
            raise WindowError(f"alter_lifetime: a duration must be positive; got {self.ticks}.")
        require_ticks(self.start, lifetime_schema(self.input.schema), "alter_lifetime: the start")
        duration = None if self.ticks == INFINITY else self.ticks
        moved = self.input.properties.with_new_starts()
        self._settle(self.input.schema, moved.but(constant_duration=duration, firm_ends=True))

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return (self.start,)

    @cached_property
    def endless_by(self) -> Node | None:
        return self if self.ticks == INFINITY else None

    @property
    def details(self) -> str:
        return f"start {self.start}, duration {_ticks(self.ticks)}"


@dataclass(frozen=True, eq=False)
class Shift(LifetimeOperator):
    """R' = {(s + by, e + by, p)}; `by` is a constant or an expression over `_start` and the
    payload."""

    input: Node
    by: int | Expr

    promise = "t + by"

    def __post_init__(self) -> None:
        before = self.input.properties
        if isinstance(self.by, Expr):
            require_ticks(self.by, lifetime_schema(self.input.schema), "shift: the amount")
            before = before.with_new_starts()
        self._settle(self.input.schema, before)

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return (self.by,) if isinstance(self.by, Expr) else ()

    @cached_property
    def endless_by(self) -> Node | None:
        return self.input.endless_by

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        """The grid moves with the rows."""
        if output_grid is None or not isinstance(self.by, int):
            return None
        return output_grid[0], (output_grid[1] - self.by) % output_grid[0]

    @property
    def details(self) -> str:
        return f"by {_by(self.by)}"


@dataclass(frozen=True, eq=False)
class Extend(LifetimeOperator):
    """R' = {(s, e + by, p) | e + by > s}; `by` may be negative."""

    input: Node
    by: int

    promise = "t; t + by where by < 0"

    def __post_init__(self) -> None:
        before = self.input.properties
        duration = None if before.constant_duration is None else before.constant_duration + self.by
        self._settle(
            self.input.schema,
            before.but(ordered=before.ordered and self.by >= 0, constant_duration=duration),
        )

    @cached_property
    def endless_by(self) -> Node | None:
        return self.input.endless_by

    @property
    def details(self) -> str:
        return f"by {_by(self.by)}"


@dataclass(frozen=True, eq=False)
class ClipDuration(LifetimeOperator):
    """R' = {(s, min(e, s + limit), p)}."""

    input: Node
    limit: int
    reach = 0

    def __post_init__(self) -> None:
        if self.limit <= 0:
            raise WindowError(f"clip_duration: the limit must be positive; got {self.limit}.")
        before = self.input.properties
        duration = before.constant_duration
        self._settle(
            self.input.schema,
            before.but(constant_duration=None if duration is None else min(duration, self.limit)),
        )

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return output_grid

    @property
    def details(self) -> str:
        return f"to {lasting(self.limit)}"


@dataclass(frozen=True, eq=False)
class PointAtEnd(LifetimeOperator):
    """R' = {(e, e + 1, p) | e finite}."""

    input: Node

    promise = "t; t + the duration where all rows last the same"
    details = ""

    def __post_init__(self) -> None:
        before = self.input.properties
        fixed = before.constant_duration is not None
        self._settle(
            self.input.schema,
            before.but(
                ordered=before.ordered and fixed,
                unique_start=before.unique_start and fixed,
                payload_start_key=before.payload_start_key and fixed,
                constant_duration=1,
                firm_ends=True,
            ),
        )


@dataclass(frozen=True, eq=False)
class Chop(LifetimeOperator):
    """Each row is cut at every grid point offset + k * period strictly inside its lifetime.

    A row without an end is cut as far as progress reaches."""

    input: Node
    period: int
    offset: int = 0

    progressing = frozenset()
    state = "the rows without an end"

    def __post_init__(self) -> None:
        if self.period <= 0:
            raise WindowError(f"chop: the period must be positive; got {self.period}.")
        before = self.input.properties
        # The last piece of a row without an end is cut again as progress moves.
        all_end = before.constant_duration is not None
        self._settle(
            self.input.schema,
            before.with_new_starts().but(
                constant_duration=None,
                firm_ends=before.firm_ends and all_end,
                insert_only=before.insert_only and all_end,
            ),
        )

    @cached_property
    def never_revises(self) -> bool:
        """The last piece of a row without an end is cut later."""
        return False

    @property
    def details(self) -> str:
        return f"every {lasting(self.period)}{_from(self.offset)}"


@dataclass(frozen=True, eq=False)
class HoppingLifetime(LifetimeOperator):
    """Trill's hopping window: (s, e, p) -> (ceil(s), ceil(s + size), p) on the grid offset + k *
    hop; the end is ignored.

    Where windows have gaps (size < hop): (T, T + size, p) with T = ceil(s) if s > T - size, and no
    row otherwise.
    """

    input: Node
    size: int
    hop: int
    offset: int = 0

    progressing = frozenset()
    promise = "the grid point at or after t"

    def __post_init__(self) -> None:
        if self.size <= 0 or self.hop <= 0:
            raise WindowError(
                f"hopping_lifetime: size and hop must be positive; got {self.size} and {self.hop}."
            )
        before = self.input.properties
        duration = self.size if self.size % self.hop == 0 else None
        self._settle(
            self.input.schema,
            before.but(
                unique_start=False,
                payload_start_key=False,
                constant_duration=duration,
                firm_ends=True,
            ),
        )

    @property
    def details(self) -> str:
        return f"{lasting(self.size)} by {lasting(self.hop)}{_from(self.offset)}"


@dataclass(frozen=True, eq=False)
class Quantize(LifetimeOperator):
    """Trill's quantize: (s, e, p) -> (floor(s, g), max(ceil(e, hop), floor(s + size, hop)), p); g
    is `progress` or hop."""

    input: Node
    size: int
    hop: int
    progress: int | None = None
    offset: int = 0

    progressing = frozenset()
    promise = "the grid point at or before t"

    def __post_init__(self) -> None:
        if self.size <= 0 or self.hop <= 0 or (self.progress is not None and self.progress <= 0):
            raise WindowError("quantize: size, hop and progress must be positive.")
        if self.progress is not None and self.hop % self.progress:
            raise WindowError(
                f"quantize: hop {self.hop} must be a multiple of progress {self.progress}."
            )
        before = self.input.properties
        self._settle(
            self.input.schema,
            before.but(
                ordered=False, unique_start=False, payload_start_key=False, constant_duration=None
            ),
        )

    @cached_property
    def endless_by(self) -> Node | None:
        return self.input.endless_by

    @property
    def details(self) -> str:
        pace = f", progress {lasting(self.progress)}" if self.progress else ""
        return f"{lasting(self.size)} by {lasting(self.hop)}{pace}{_from(self.offset)}"


def _ticks(ticks: int) -> str:
    return "forever" if ticks == INFINITY else lasting(ticks)


def _from(offset: int) -> str:
    return f" from {lasting(offset)}" if offset else ""


def _by(distance: int | Expr) -> str:
    return lasting(distance) if isinstance(distance, int) else str(distance)
