"""Floats with twice the digits: a number as the unevaluated sum of two doubles.

An answer that is taken back must be the answer that was given, to the last bit, though its rows may
since have been added up in another order. Ordinary sums of floats depend on the order in their last
digits; with twice the digits the difference lies far below the one that the result is rounded to.
Infinite and undefined sums come out as they would with plain doubles.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Doubled", "add_doubled", "rounded", "square", "variance_of"]

Floats: TypeAlias = npt.NDArray[np.float64]
Doubled: TypeAlias = tuple[Floats, Floats]

_SPLIT = 134217729.0  # 2**27 + 1


def _two_sum(a: Floats, b: Floats) -> Doubled:
    """The sum and what rounding took from it."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _finite(high: Floats, low: Floats) -> Doubled:
    return high, np.where(np.isfinite(high) & np.isfinite(low), low, 0.0)


def add_doubled(one: Doubled, two: Doubled) -> Doubled:
    """
    >>> total = add_doubled((np.array([1e16]), np.array([0.0])), (np.array([1.0]), np.array([0.0])))
    >>> rounded(add_doubled(total, (np.array([-1e16]), np.array([0.0])))).tolist()
    [1.0]
    """
    with np.errstate(invalid="ignore", over="ignore"):
        high, low = _two_sum(one[0], two[0])
        more, least = _two_sum(one[1], two[1])
        low = low + more
        high, low = high + low, low - ((high + low) - high)
        low = low + least
        return _finite(high + low, low - ((high + low) - high))


def _two_product(a: Floats, b: Floats) -> Doubled:
    with np.errstate(invalid="ignore", over="ignore"):
        product = a * b
        high_a = _SPLIT * a - (_SPLIT * a - a)
        high_b = _SPLIT * b - (_SPLIT * b - b)
        low_a, low_b = a - high_a, b - high_b
        return _finite(
            product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
        )


def square(numbers: Floats) -> Doubled:
    return _two_product(numbers, numbers)


def rounded(number: Doubled) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray(number[0] + number[1])


def variance_of(count: Floats, total: Doubled, squares: Doubled) -> Floats:
    """The sample variance from the number of values, their sum and the sum of their squares: (q - s
    * s / n) / (n - 1)."""
    some = np.where(count > 1, count, 2.0)
    product, low = _two_product(total[0], total[0])
    with np.errstate(invalid="ignore", over="ignore"):
        low = low + 2.0 * total[0] * total[1]
        product, low = product + low, low - ((product + low) - product)
        quotient = product / some
        back, rest = _two_product(quotient, some)
        correction = ((product - back) - rest + low) / some
        spread = rounded(add_doubled(squares, (-quotient, -correction)))
        return np.asarray(np.where(spread < 0, 0.0, spread) / (some - 1))
