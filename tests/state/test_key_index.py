"""`KeyIndex` against a dictionary: whole numbers near each other, far apart, and at both ends of
their range."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.state import KeyIndex

LEAST, GREATEST = -(2**63), 2**63 - 1


def assert_like_dictionary(index: KeyIndex, numbers: dict[int, int], keys: list[int]) -> None:
    expected = [numbers.setdefault(key, len(numbers)) for key in keys]
    assert index.numbers([pa.array(keys, pa.int64())], len(keys)).tolist() == expected


@pytest.mark.parametrize("center", [0, -(10**12), LEAST, LEAST + 70, GREATEST, GREATEST - 70])
def test_whole_numbers_have_one_number_each(center: int) -> None:
    random = np.random.default_rng(1)
    index, numbers = KeyIndex([pa.field("k", pa.int64())]), dict[int, int]()
    for spread in (3, 40, 300, 5_000, 2**40):
        for count in (1, 10, 2_000):
            near = center + random.integers(-spread, spread, count, endpoint=True).astype(object)
            keys = [min(max(int(key), LEAST), GREATEST) for key in near]
            assert_like_dictionary(index, numbers, keys)
    assert index.columns(np.arange(len(index)))[0].to_pylist() == list(numbers)


def test_keys_at_the_other_end_of_the_range_are_new() -> None:
    index, numbers = KeyIndex([pa.field("k", pa.int64())]), dict[int, int]()
    for keys in ([0, 1, 2], [GREATEST, LEAST], [LEAST + 1, 0, GREATEST - 1], [5, LEAST, 1]):
        assert_like_dictionary(index, numbers, keys)


def test_groups_that_are_not_kept_are_new_again() -> None:
    index, numbers = KeyIndex([pa.field("k", pa.int64())]), dict[int, int]()
    assert_like_dictionary(index, numbers, [7, 8, 9])
    assert index.keep(np.array([0, 2])).tolist() == [0, -1, 1]
    assert index.numbers([pa.array([9, 8, 7])], 3).tolist() == [1, 2, 0]
