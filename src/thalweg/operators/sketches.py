"""Sketches: partial results of holistic aggregates, of a size that does not grow with the rows
(Apache DataSketches).

    approx_percentile(x, p)    a KLL sketch of the values
    heavy_hitters(x, share)    a frequent-items sketch of the values as text

A part is a single value, or a sketch of several; putting parts together makes one sketch of them
all. As long as a sketch holds few values it is exact; beyond that its error is the library's (about
1.3 % of the rank for quantiles). Sketches choose at random what they forget, so that the same rows
may give another answer when they are summed up again: who takes an answer back must remember what
it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import require_package
from thalweg.model.rows import Codes
from thalweg.plan.aggregates import SKETCHED, AggregateCall

__all__ = ["SKETCHED", "merge_ranges", "sketch_results"]

_KLL_SIZE, _LOG_ITEMS = 200, 12


def _library() -> Any:
    require_package("datasketches", "sketches", "a sketch")
    import datasketches  # type: ignore[import-untyped]  # when it is first needed: a worker starts sooner without it

    return datasketches


def _new(call: AggregateCall) -> Any:
    if call.function == "approx_percentile":
        return _library().kll_doubles_sketch(_KLL_SIZE)
    return _library().frequent_strings_sketch(_LOG_ITEMS)


def _read(call: AggregateCall, blob: bytes) -> Any:
    if call.function == "approx_percentile":
        return _library().kll_doubles_sketch.deserialize(blob)
    return _library().frequent_strings_sketch.deserialize(blob)


def _adder(call: AggregateCall, values: pa.Array) -> Callable[[Any, Codes], None]:
    """How single values go into a sketch: numbers all at once, texts once for each distinct one."""
    if call.function == "approx_percentile":
        numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)

        def add_numbers(sketch: Any, which: Codes) -> None:
            sketch.update(numbers[which])

        return add_numbers
    texts = values.cast(pa.string())

    def add_texts(sketch: Any, which: Codes) -> None:
        for entry in texts.take(pa.array(which)).value_counts().to_pylist():
            sketch.update(entry["values"], entry["counts"])

    return add_texts


def merge_ranges(
    call: AggregateCall, values: pa.Array, sketches: pa.Array, lo: Codes, hi: Codes
) -> tuple[pa.Array, pa.Array]:
    """Of each range of parts one part: a value where there is just one, else a sketch."""
    valued = values.is_valid().to_numpy(zero_copy_only=False)
    sketched = sketches.is_valid().to_numpy(zero_copy_only=False)
    some = valued | sketched
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(some)])
    many = upto[hi] - upto[np.minimum(lo, hi)]
    at = np.flatnonzero(some)
    single = np.full(len(lo), -1, np.int64)
    one = np.flatnonzero(many == 1)
    single[one] = at[upto[lo[one]]]
    blobs: list[bytes | None] = [None] * len(lo)
    add = _adder(call, values)
    for query in np.flatnonzero(many > 1).tolist():
        parts = at[upto[lo[query]] : upto[hi[query]]]
        sketch = _new(call)
        add(sketch, parts[valued[parts]])
        for part in parts[sketched[parts]].tolist():
            sketch.merge(_read(call, sketches[part].as_py()))
        blobs[query] = sketch.serialize()
    pick = pa.array(np.where(single < 0, 0, single), mask=single < 0)
    for query in one.tolist():
        blobs[query] = sketches[int(single[query])].as_py()
    kept = values.take(pick) if len(values) else pa.nulls(len(lo), values.type)
    return kept, pa.array(blobs, pa.binary())


def sketch_results(
    call: AggregateCall, values: pa.Array, sketches: pa.Array, kind: pa.DataType
) -> pa.Array:
    """The answer of each part."""
    answers: list[float | list[dict[str, object]] | None] = []
    for value, blob in zip(values.to_pylist(), sketches.to_pylist(), strict=True):
        if blob is None and value is None:
            answers.append(None)
        elif call.function == "approx_percentile":
            answers.append(
                float(value)
                if blob is None
                else float(_read(call, blob).get_quantile(call.p, True))
            )
        else:
            answers.append(_hitters(call, value, blob))
    return pa.array(answers, kind)


def _hitters(call: AggregateCall, value: object, blob: bytes | None) -> list[dict[str, object]]:
    if blob is None:
        return [{"value": str(value), "count": 1}]
    sketch = _read(call, blob)
    found = sketch.get_frequent_items(_library().frequent_items_error_type.NO_FALSE_NEGATIVES)
    least = float(call.p or 0.0) * sketch.total_weight
    often = sorted((-int(estimate), str(item)) for item, estimate, *_ in found if estimate >= least)
    return [{"value": item, "count": -count} for count, item in often]
