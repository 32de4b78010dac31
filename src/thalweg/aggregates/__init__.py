"""Aggregates: one object each, one file a family. See `base` for what an aggregate is."""

from thalweg.aggregates.base import Aggregate, Columns, Values, is_number
from thalweg.aggregates.extremes import ArgMax, ArgMin, First, Last, Max, Min
from thalweg.aggregates.frequent import HeavyHitters
from thalweg.aggregates.moments import StandardDeviation, Variance
from thalweg.aggregates.percentiles import DiscretePercentile, Percentile
from thalweg.aggregates.registry import (
    Registered,
    aggregate_names,
    find_aggregate,
    register_aggregate,
)
from thalweg.aggregates.sketches import ApproximatePercentile
from thalweg.aggregates.sums import Average, Count, Sum

__all__ = [
    "Aggregate",
    "ApproximatePercentile",
    "ArgMax",
    "ArgMin",
    "Average",
    "Columns",
    "Count",
    "DiscretePercentile",
    "First",
    "HeavyHitters",
    "Last",
    "Max",
    "Min",
    "Percentile",
    "Registered",
    "StandardDeviation",
    "Sum",
    "Values",
    "Variance",
    "aggregate_names",
    "find_aggregate",
    "is_number",
    "register_aggregate",
]
