"""Tables as bags."""

from __future__ import annotations

import pytest

from thalweg.model import Row
from thalweg.testing import assert_same_table, difference


def table(*values: object) -> list[Row]:
    return [(1, 2, {"v": value}) for value in values]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (table(1, 2, 2), table(2, 1, 2)),
        (table(float("nan")), table(float("nan"))),
        (table(None), table(None)),
        (table(0.0), table(-0.0)),
        (table(1e6 * (1 + 1e-12)), table(1e6)),
        (table(0.1 + 0.2, 0.7), table(0.7, 0.3)),
        (table(3), table(3.0)),
        (table([1, {"a": 0.1 + 0.2}]), table([1, {"a": 0.3}])),
        ([], []),
    ],
    ids=str,
)
def test_same(one: list[Row], two: list[Row]) -> None:
    assert difference(one, two) is None
    assert_same_table(two, one)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (table(1), table(1, 1)),
        (table(1, 1, 2), table(1, 2, 2)),
        (table(1.0), table(1.001)),
        (table(float("nan")), table(None)),
        (table(float("nan")), table(0.0)),
        (table(True), table(1)),
        (table("1"), table(1)),
        (table([1]), table([1, 1])),
        ([(1, 2, {"v": 1})], [(1, 2, {"w": 1})]),
        ([(1, 2, {"v": 1})], [(1, 2, {"v": 1, "w": None})]),
        ([(1, 2, {"v": 1})], [(1, 3, {"v": 1})]),
    ],
    ids=str,
)
def test_different(one: list[Row], two: list[Row]) -> None:
    assert difference(one, two) is not None
    with pytest.raises(AssertionError, match="the tables differ"):
        assert_same_table(one, two)


def test_the_message_names_missing_and_surplus_rows() -> None:
    wrong = difference(table(1, 2, 2), table(2, 3))
    assert (
        wrong
        == "missing rows:\n  (1, 2, {'v': 1}),\n  (1, 2, {'v': 2}),\nsurplus rows:\n  (1, 2, {'v':"
        " 3}),"
    )
