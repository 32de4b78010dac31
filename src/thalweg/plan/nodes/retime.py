"""A node that gives every row a lifetime by two expressions."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.expr import Expr
from thalweg.plan.nodes.base import Node
from thalweg.plan.nodes.families import LifetimeOperator
from thalweg.plan.nodes.schemas import lifetime_schema, require_ticks

__all__ = ["Retime"]


@dataclass(frozen=True, eq=False)
class Retime(LifetimeOperator):
    """R' = {(f(s, p), g(s, e, p), p) | f(s, p) < g(s, e, p)}: the start from an expression over
    `_start` and the payload, the end from one that may also read `_end`.

    What a row's lifetime counts need not be time: window ids will do, for a join of windows.
    """

    input: Node
    start: Expr
    end: Expr

    promise = "what follows from the promises for the columns it reads"

    def __post_init__(self) -> None:
        for what, expr in (("start", self.start), ("end", self.end)):
            seen = lifetime_schema(self.input.schema, with_end=what == "end")
            require_ticks(expr, seen, f"retime: the {what}")
        self._settle(
            self.input.schema,
            self.input.properties.with_new_starts().but(
                constant_duration=None,
                firm_ends=not self.reads_end or self.input.properties.firm_ends,
            ),
        )

    @property
    def reads_end(self) -> bool:
        """Whether the new end depends on the old one."""
        return "_end" in self.end.columns()

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return self.start, self.end

    @property
    def details(self) -> str:
        return f"from {self.start} to {self.end}"
