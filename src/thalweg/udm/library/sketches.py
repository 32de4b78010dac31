"""Sketches of known error, from Apache DataSketches: quantiles with weights, and heavy hitters.

A sketch that has thrown something away depends on the order in which it saw its values. It is
therefore made from the rows of a window in their canonical order, never from panes: the answer of a
window is the same whatever order they arrived in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thalweg.udm.decorators import aggregate, operator

__all__ = ["HeavyHitters", "WeightedQuantile"]


@aggregate(
    "std.weighted_quantile",
    inputs={"value": "double", "weight": "int64"},
    output="double",
    takes="values",
    nulls="skip",
)
class WeightedQuantile:
    """The value below which a share q of the total weight lies, by a t-digest of size k; null
    without any weight.

    Weights are whole numbers, at least 0. With k = 200 the error in rank is around 1%, and less at
    the ends.
    """

    def __init__(self, q: float = 0.5, k: int = 200) -> None:
        if not 0 <= q <= 1:
            raise TypeError(f"q must be between 0 and 1; got {q}")
        self._q, self._k = q, k

    def compute(self, rows: Sequence[tuple[float, int]]) -> float | None:
        from datasketches import tdigest_double  # type: ignore[import-untyped]

        total = tdigest_double(self._k)
        for value, weight in rows:
            if weight < 0:
                raise ValueError(f"the weight {weight} is negative")
            # A value with weight w is w equal values: by doubling, in log2(w) merges.
            doubled = tdigest_double(self._k)
            doubled.update(value)
            while weight:
                if weight & 1:
                    total.merge(doubled)
                weight >>= 1
                if weight:
                    copy = tdigest_double.deserialize(doubled.serialize())
                    doubled.merge(copy)
        return None if total.is_empty() else float(total.get_quantile(self._q))


@operator(
    "std.heavy_hitters",
    inputs={"item": "string"},
    output={"item": "string", "at_least": "int64", "at_most": "int64"},
    nulls="skip",
)
class HeavyHitters:
    """Items that may make up at least a share of the rows, with bounds for how often they occur;
    none that does is missing."""

    def __init__(self, share: float = 0.1, lg_size: int = 10) -> None:
        if not 0 < share <= 1:
            raise TypeError(f"share must be above 0 and at most 1; got {share}")
        self._share, self._lg_size = share, lg_size

    def compute(self, items: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        from datasketches import frequent_items_error_type, frequent_strings_sketch

        sketch = frequent_strings_sketch(self._lg_size)
        for item in items:
            sketch.update(item)
        threshold = max(int(self._share * len(items)) - 1, 0)  # strictly above it
        for item, _, low, high in sketch.get_frequent_items(
            frequent_items_error_type.NO_FALSE_NEGATIVES, threshold
        ):
            if high >= self._share * len(items):
                yield item, int(low), int(high)
