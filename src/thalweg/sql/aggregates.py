"""Aggregates by their SQL names, and those that a user registered."""

from __future__ import annotations

from sqlglot import exp

from thalweg.aggregates import find_aggregate
from thalweg.errors import PlanError
from thalweg.expr import Expr, Literal
from thalweg.expr.functions import ALIASES, FUNCTIONS
from thalweg.plan.aggregates import AggregateCall
from thalweg.udm import DEFAULT, Module

__all__ = ["arity_of", "build_call", "has_aggregate", "is_aggregate", "registered"]


def build_call(name: str, values: list[Expr], where: Expr | None) -> AggregateCall:
    """The call of a built-in aggregate: columns first, then parameters, which are constants."""
    aggregate = find_aggregate(name)
    assert aggregate is not None
    parameters = [_constant(value) for value in values[aggregate.columns :]]
    by = values[1] if aggregate.columns == 2 else None
    return AggregateCall(aggregate.make(*parameters), values[0] if values else None, by, where)


def arity_of(name: str) -> int | None:
    """How many arguments an aggregate takes; None where there is none of this name."""
    aggregate = find_aggregate(name)
    return None if aggregate is None else aggregate.columns + aggregate.parameters


def _constant(value: Expr) -> float:
    if (
        not isinstance(value, Literal)
        or isinstance(value.value, bool)
        or not isinstance(value.value, (int, float))
    ):
        raise PlanError("the second argument is a number between 0 and 1: percentile(x, 0.95).")
    return float(value.value)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node of the tree is an aggregate, of ours or of a user, perhaps with a FILTER."""
    call = node.this if isinstance(node, exp.Filter) else node
    if not isinstance(call, exp.Anonymous) or not isinstance(call.this, str):
        return False
    return find_aggregate(call.this) is not None or registered(call.this, "aggregate")


def has_aggregate(item: exp.Expr) -> bool:
    """Whether there is an aggregate anywhere in a part of the tree."""
    return any(is_aggregate(node) for node in item.walk())


def registered(name: str, kind: str) -> bool:
    """Whether a module of this kind is registered under a name. Functions of single events and
    built-in aggregates do not count."""
    if kind == "operator" and find_aggregate(name) is not None:
        return False
    if ALIASES.get(name.lower(), name.lower()) in FUNCTIONS:
        return False
    return any(
        isinstance(entry, Module) and entry.kind == kind and f".{entry.name}".endswith(f".{name}")
        for entry in DEFAULT.all()
    )
