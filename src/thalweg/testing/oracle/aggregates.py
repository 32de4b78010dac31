"""Aggregates over the rows of one window, written from their definitions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from thalweg.model import Row
from thalweg.plan.aggregates import AggregateCall
from thalweg.testing.identity import order
from thalweg.testing.oracle.values import evaluate

__all__ = ["aggregate"]


@dataclass(frozen=True)
class _Item:
    """What one row of the window contributes."""

    start: int
    of: Any
    by: Any


def aggregate(call: AggregateCall, rows: list[Row], schema: pa.Schema) -> Any:
    """The value of one aggregate over the rows of a window. `schema` is what its expressions
    see."""
    items = []
    for start, _, payload in rows:
        seen = {**payload, "_start": start}
        if call.where is None or evaluate(call.where, seen, schema) is True:
            of = None if call.of is None else evaluate(call.of, seen, schema)
            by = None if call.by is None else evaluate(call.by, seen, schema)
            items.append(_Item(start, of, by))
    name = call.aggregate.name
    if name == "count" and call.of is None:
        return len(items)
    if name in ("arg_max", "arg_min"):
        return _arg(items, largest=name == "arg_max")
    non_null = [item for item in items if item.of is not None]
    if name == "first":
        return min(non_null, key=lambda item: (item.start, order(item.of))).of if non_null else None
    if name == "last":
        return max(non_null, key=lambda item: (item.start, order(item.of))).of if non_null else None
    values = [item.of for item in non_null]
    if name in _WITH_PARAMETER:
        (parameter,) = call.aggregate.parameters
        return _WITH_PARAMETER[name](values, parameter)
    if name in _SIMPLE:
        return _SIMPLE[name](values)
    return call.aggregate.define(values)  # a user's aggregate has its own definition


def _arg(items: list[_Item], *, largest: bool) -> Any:
    ranked = [item for item in items if item.by is not None]
    if not ranked:
        return None
    pick = max if largest else min
    best = pick(order(item.by) for item in ranked)
    return min((item.of for item in ranked if order(item.by) == best), key=order)


def _percentile(values: list[Any], p: float) -> Any:
    if not values:
        return None
    values = sorted(values, key=order)
    rank = p * (len(values) - 1)
    below, above = float(values[math.floor(rank)]), float(values[math.ceil(rank)])
    if below == above or rank == math.floor(rank):
        return below
    return below + (above - below) * (rank - math.floor(rank))


def _discrete(values: list[Any], p: float) -> Any:
    values = sorted(values, key=order)
    return next((value for at, value in enumerate(values, 1) if at / len(values) >= p), None)


def _approximate(values: list[Any], p: float) -> float | None:
    """Exact: what a sketch finds while its values are few."""
    found = _discrete(values, p)
    return None if found is None else float(found)


def _hitters(values: list[Any], share: float) -> list[dict[str, Any]] | None:
    """Exact counts: what a sketch finds while its values are few."""
    counts = Counter(str(value) for value in values)
    often = sorted(
        (-count, value) for value, count in counts.items() if count >= share * len(values)
    )
    return [{"value": value, "count": -count} for count, value in often] if values else None


def _total(values: list[Any]) -> Any:
    """The exact sum, of floats rounded once; with a NaN or both infinities it is NaN."""
    if not any(isinstance(value, float) for value in values):
        return sum(int(value) for value in values)
    if not all(math.isfinite(value) for value in values):
        return sum(value for value in values if not math.isfinite(value))
    return _rounded(sum(map(Fraction, values), Fraction(0)))


def _rounded(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _average(values: list[Any]) -> float | None:
    return _total(values) / len(values) if values else None


def _variance(values: list[Any]) -> float | None:
    """From exact fractions."""
    if len(values) < 2:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    return _rounded(sum(((value - mean) ** 2 for value in exact), Fraction(0)) / (len(exact) - 1))


def _stddev(values: list[Any]) -> float | None:
    variance = _variance(values)
    return None if variance is None else math.sqrt(variance)


_SIMPLE: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": lambda values: _total(values) if values else None,
    "avg": _average,
    "min": lambda values: min(values, key=order) if values else None,
    "max": lambda values: max(values, key=order) if values else None,
    "variance": _variance,
    "stddev": _stddev,
}
_WITH_PARAMETER: dict[str, Callable[[list[Any], Any], Any]] = {
    "percentile_cont": _percentile,
    "percentile_disc": _discrete,
    "approx_percentile": _approximate,
    "heavy_hitters": _hitters,
}
