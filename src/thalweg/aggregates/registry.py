"""Aggregates by the names under which SQL finds them, those of users among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from thalweg.aggregates.base import Aggregate
from thalweg.aggregates.extremes import ArgMax, ArgMin, First, Last, Max, Min
from thalweg.aggregates.frequent import HeavyHitters
from thalweg.aggregates.moments import StandardDeviation, Variance
from thalweg.aggregates.percentiles import DiscretePercentile, Percentile
from thalweg.aggregates.sketches import ApproximatePercentile
from thalweg.aggregates.sums import Average, Count, Sum
from thalweg.errors import PlanError

__all__ = ["Registered", "aggregate_names", "find_aggregate", "register_aggregate"]


@dataclass(frozen=True, slots=True)
class Registered:
    """What makes the aggregate from its parameters, and how many columns and parameters it
    takes, in this order."""

    make: Callable[..., Aggregate]
    columns: int = 1
    parameters: int = 0


_BY_NAME: dict[str, Registered] = {
    "count": Registered(Count),
    "sum": Registered(Sum),
    "avg": Registered(Average),
    "mean": Registered(Average),
    "min": Registered(Min),
    "max": Registered(Max),
    "variance": Registered(Variance),
    "var_samp": Registered(Variance),
    "stddev": Registered(StandardDeviation),
    "stddev_samp": Registered(StandardDeviation),
    "median": Registered(partial(Percentile, 0.5)),
    "percentile": Registered(Percentile, parameters=1),
    "percentile_cont": Registered(Percentile, parameters=1),
    "percentile_disc": Registered(DiscretePercentile, parameters=1),
    "approx_percentile": Registered(ApproximatePercentile, parameters=1),
    "heavy_hitters": Registered(HeavyHitters, parameters=1),
    "first": Registered(First),
    "first_value": Registered(First),
    "last": Registered(Last),
    "last_value": Registered(Last),
    "arg_max": Registered(ArgMax, columns=2),
    "max_by": Registered(ArgMax, columns=2),
    "arg_min": Registered(ArgMin, columns=2),
    "min_by": Registered(ArgMin, columns=2),
}
_BUILT_IN = frozenset(_BY_NAME)


def register_aggregate(
    name: str, make: Callable[..., Aggregate], *, columns: int = 1, parameters: int = 0
) -> None:
    """Make an aggregate known to SQL. `columns` is 1, or 2 where a second one orders the rows."""
    if name.lower() in _BUILT_IN:
        raise PlanError(f"register_aggregate: {name} is an aggregate of the system's own.")
    if columns not in (1, 2) or parameters < 0:
        raise PlanError("register_aggregate: an aggregate takes one or two columns.")
    _BY_NAME[name.lower()] = Registered(make, columns, parameters)


def find_aggregate(name: str) -> Registered | None:
    return _BY_NAME.get(name.lower())


def aggregate_names() -> tuple[str, ...]:
    return tuple(_BY_NAME)
