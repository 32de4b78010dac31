"""Aggregates by their SQL names, and those that a user registered."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlglot import exp

from thalweg.errors import PlanError
from thalweg.expr import Expr, Literal
from thalweg.expr.functions import ALIASES, FUNCTIONS
from thalweg.plan import aggregates
from thalweg.plan.aggregates import AggregateCall
from thalweg.udm import DEFAULT, Module

__all__ = ["AGGREGATES", "is_aggregate", "module_named"]

Builder = Callable[..., AggregateCall]


def _fraction(make: Builder) -> Builder:
    """An aggregate whose second argument is a number between 0 and 1."""

    def build(of: Expr, p: Expr, *, where: Expr | None = None) -> AggregateCall:
        if (
            not isinstance(p, Literal)
            or isinstance(p.value, bool)
            or not isinstance(p.value, (int, float))
        ):
            raise PlanError("the second argument is a number between 0 and 1: percentile(x, 0.95).")
        return make(of, float(p.value), where=where)

    return build


def _arg_max(of: Expr, by: Expr, *, where: Expr | None = None) -> AggregateCall:
    return aggregates.arg_max(of, by=by, where=where)


def _arg_min(of: Expr, by: Expr, *, where: Expr | None = None) -> AggregateCall:
    return aggregates.arg_min(of, by=by, where=where)


def _median(of: Expr, *, where: Expr | None = None) -> AggregateCall:
    return aggregates.percentile(of, 0.5, where=where)


AGGREGATES: dict[str, tuple[Builder, int]] = {
    "count": (aggregates.count, 1),
    "sum": (aggregates.sum_, 1),
    "avg": (aggregates.avg, 1),
    "mean": (aggregates.avg, 1),
    "min": (aggregates.min_, 1),
    "max": (aggregates.max_, 1),
    "variance": (aggregates.variance, 1),
    "var_samp": (aggregates.variance, 1),
    "stddev": (aggregates.stddev, 1),
    "stddev_samp": (aggregates.stddev, 1),
    "median": (_median, 1),
    "percentile": (_fraction(aggregates.percentile), 2),
    "percentile_cont": (_fraction(aggregates.percentile), 2),
    "percentile_disc": (_fraction(partial(aggregates.percentile, discrete=True)), 2),
    "approx_percentile": (_fraction(aggregates.approx_percentile), 2),
    "heavy_hitters": (_fraction(aggregates.heavy_hitters), 2),
    "first": (aggregates.first, 1),
    "first_value": (aggregates.first, 1),
    "last": (aggregates.last, 1),
    "last_value": (aggregates.last, 1),
    "arg_max": (_arg_max, 2),
    "max_by": (_arg_max, 2),
    "arg_min": (_arg_min, 2),
    "min_by": (_arg_min, 2),
}
"""By SQL name: what makes the aggregate, and how many arguments it takes."""


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node of the tree is an aggregate, of ours or of a user, perhaps with a FILTER."""
    call = node.this if isinstance(node, exp.Filter) else node
    if not isinstance(call, exp.Anonymous) or not isinstance(call.this, str):
        return False
    return call.this.lower() in AGGREGATES or _is_registered(call.this)


def _is_registered(name: str) -> bool:
    """Whether somebody registered an aggregate under a name; functions of single events are not
    meant."""
    if ALIASES.get(name.lower(), name.lower()) in FUNCTIONS:
        return False
    return any(
        isinstance(entry, Module)
        and entry.kind == "aggregate"
        and f".{entry.name}".endswith(f".{name}")
        for entry in DEFAULT.all()
    )


def module_named(name: str) -> Module:
    """The aggregate that somebody registered under a name; refused where several have it."""
    return DEFAULT.find(name)
