"""Comparing two tables as bags of rows.

Order does not matter, duplicates count. Floats agree within a relative 1e-9 (sums may be added up
in another order), NaN agrees with NaN, and a float agrees with a whole number of the same size;
true and 1 do not agree.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from thalweg.model import Row
from thalweg.testing.identity import identity
from thalweg.testing.text import show_rows

__all__ = ["assert_same_table", "difference", "sort_rows"]

_RELATIVE = 1e-9
_ABSOLUTE = 1e-12


def difference(expected: Iterable[Row], actual: Iterable[Row]) -> str | None:
    """What is wrong with a table, or None when it is the expected one.

    >>> expected = [(1, 3, {"v": 1}), (2, 4, {"v": 2})]
    >>> print(difference(expected, [(1, 3, {"v": 1}), (2, 5, {"v": 2})]))
    missing rows:
      (2, 4, {'v': 2}),
    surplus rows:
      (2, 5, {'v': 2}),
    >>> difference([(1, 3, {"v": 0.1 + 0.2})], [(1, 3, {"v": 0.3})]) is None
    True
    """
    missing, surplus = _without_equals(list(expected), list(actual))
    unmatched = []
    for row in missing:
        at = next((at for at, other in enumerate(surplus) if _agree(row, other)), None)
        if at is None:
            unmatched.append(row)
        else:
            surplus.pop(at)
    if not unmatched and not surplus:
        return None
    parts = [("missing rows", unmatched), ("surplus rows", surplus)]
    return "\n".join(f"{title}:\n{show_rows(sort_rows(rows))}" for title, rows in parts if rows)


def assert_same_table(expected: Iterable[Row], actual: Iterable[Row]) -> None:
    """Raise AssertionError with the missing and the surplus rows when two tables differ."""
    __tracebackhide__ = True
    wrong = difference(expected, actual)
    if wrong:
        raise AssertionError(f"the tables differ\n{wrong}")


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows by start, end and the text of the payload: an order to read them in."""
    return sorted(
        rows,
        key=lambda row: (row[0], row[1], repr(sorted(row[2].items(), key=lambda item: item[0]))),
    )


def _without_equals(expected: list[Row], actual: list[Row]) -> tuple[list[Row], list[Row]]:
    """Both tables without the rows that agree exactly: what is left is small and may be compared
    pair by pair."""
    wanted, found = list(map(_exact, expected)), list(map(_exact, actual))
    common = Counter(wanted) & Counter(found)
    return _less(expected, wanted, common), _less(actual, found, common)


def _exact(row: Row) -> Hashable:
    return row[0], row[1], identity(row[2])


def _less(rows: list[Row], keys: list[Hashable], common: Counter[Hashable]) -> list[Row]:
    left = Counter(common)
    rest = []
    for row, key in zip(rows, keys, strict=True):
        if left[key]:
            left[key] -= 1
        else:
            rest.append(row)
    return rest


def _agree(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        if isinstance(left, int) and isinstance(right, int):
            return left == right
        same_nan = math.isnan(left) and math.isnan(right)
        return same_nan or math.isclose(left, right, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_agree(left[name], right[name]) for name in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(
            _agree(a, b) for a, b in zip(left, right, strict=True)
        )
    return bool(left == right)
