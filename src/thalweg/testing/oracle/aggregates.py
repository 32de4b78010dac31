"""Aggregates over the rows of one window, written from their definitions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
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
    if call.function == "count" and call.of is None:
        return len(items)
    if call.function in ("arg_max", "arg_min"):
        return _arg(items, largest=call.function == "arg_max")
    known = [item for item in items if item.of is not None]
    if call.function == "first":
        return min(known, key=lambda item: (item.start, order(item.of))).of if known else None
    if call.function == "last":
        return max(known, key=lambda item: (item.start, order(item.of))).of if known else None
    values = [item.of for item in known]
    if call.function == "approx_percentile":
        assert call.p is not None
        found = _percentile(sorted(values, key=order), call.p, discrete=True)
        return None if found is None else float(found)
    if call.function == "heavy_hitters":
        assert call.p is not None
        return _hitters(values, call.p)
    if call.function.startswith("percentile"):
        assert call.p is not None
        return _percentile(
            sorted(values, key=order), call.p, discrete=call.function == "percentile_disc"
        )
    return _SIMPLE[call.function](values)


def _arg(items: list[_Item], *, largest: bool) -> Any:
    ranked = [item for item in items if item.by is not None]
    if not ranked:
        return None
    pick = max if largest else min
    best = pick(order(item.by) for item in ranked)
    return min((item.of for item in ranked if order(item.by) == best), key=order)


def _percentile(values: list[Any], p: float, *, discrete: bool) -> Any:
    if not values:
        return None
    if discrete:
        return next(value for at, value in enumerate(values, 1) if at / len(values) >= p)
    rank = p * (len(values) - 1)
    below, above = values[math.floor(rank)], values[math.ceil(rank)]
    return float(below + (above - below) * (rank - math.floor(rank)))


def _hitters(values: list[Any], share: float) -> list[dict[str, Any]] | None:
    """Exact counts: what a sketch finds while its values are few."""
    counts = Counter(str(value) for value in values)
    often = sorted(
        (-count, value) for value, count in counts.items() if count >= share * len(values)
    )
    return [{"value": value, "count": -count} for count, value in often] if values else None


def _total(values: list[Any]) -> Any:
    if not any(isinstance(value, float) for value in values):
        return sum(int(value) for value in values)
    return math.fsum(values) if all(math.isfinite(value) for value in values) else sum(values)


def _variance(values: list[Any]) -> float | None:
    if len(values) < 2:
        return None
    mean = _total(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _stddev(values: list[Any]) -> float | None:
    variance = _variance(values)
    return None if variance is None else math.sqrt(variance)


_SIMPLE: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": lambda values: _total(values) if values else None,
    "avg": lambda values: _total(values) / len(values) if values else None,
    "min": lambda values: min(values, key=order) if values else None,
    "max": lambda values: max(values, key=order) if values else None,
    "variance": _variance,
    "stddev": _stddev,
}
