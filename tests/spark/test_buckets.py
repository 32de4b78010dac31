"""Buckets: equal keys meet, whatever type and batch they come in; bucket ids lie where Spark puts
them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from thalweg.shards.exchange.buckets import _murmur3, bucket_ids, bucket_of

MANY = 100_003
"""So many buckets that two different values hardly ever share one."""


def buckets(values: list[Any], kind: pa.DataType | None = None, count: int = MANY) -> list[int]:
    return [int(bucket) for bucket in bucket_of([pa.array(values, kind)], len(values), count)]


# ------------------------------------------------------------------------------------------------
# keys


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.uint8(),
        pa.uint64(),
        pa.float16(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(9, 2),
    ],
)
def test_equal_numbers_of_different_types_meet(kind: pa.DataType) -> None:
    values: list[Any] = [0, 1, 7, 100, None]
    given = [
        value if value is None or not pa.types.is_decimal(kind) else Decimal(value)
        for value in values
    ]
    numbers = (
        pa.array(np.array(values[:4], np.float16), kind)
        if kind == pa.float16()
        else pa.array(given[:4], kind)
    )
    assert bucket_of([numbers], 4, MANY).tolist() == buckets(values, pa.int64())[:4]


def test_zero_has_one_bucket_and_so_has_nan() -> None:
    assert len(set(buckets([0.0, -0.0]))) == 1
    strange = np.array([0x7FF8000000000000, 0x7FF8000000000001, -0x8000000000000], np.int64).view(
        np.float64
    )
    assert np.isnan(strange).all()
    assert len(set(buckets(strange.tolist()))) == 1


def test_nulls_of_all_types_meet_and_are_not_zero() -> None:
    kinds = [
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.null(),
        pa.bool_(),
        pa.timestamp("us"),
        pa.list_(pa.int64()),
    ]
    assert len({buckets([None], kind)[0] for kind in kinds}) == 1
    assert buckets([None, 0])[0] != buckets([None, 0])[1]
    assert buckets([None, ""])[0] != buckets([None, ""])[1]


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_texts_meet_however_they_are_stored(kind: pa.DataType) -> None:
    values = ["", "a", None, "b", "a", "ä€😀", "a\0b"]
    texts = pa.array(values)
    stored = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
    assert bucket_of([stored], len(values), MANY).tolist() == buckets(values)


def test_texts_that_differ_a_little_part() -> None:
    texts = ["", "a", "b", "aa", "ab", "ba", "a\0", "\0a", "\0", "A"]
    assert len(set(buckets(texts))) == len(texts)


BYTES = [pa.binary(), pa.large_binary(), pa.binary(3), pa.binary_view()]


@pytest.mark.parametrize("kind", BYTES, ids=str)
def test_the_bucket_of_bytes_does_not_depend_on_their_company(kind: pa.DataType) -> None:
    text, bytes_ = buckets([b"abc", b"xyz"], kind), buckets([b"abc", b"x\xffz"], kind)
    assert text[0] == bytes_[0]
    assert text[1] != bytes_[1]


@pytest.mark.parametrize(
    "values",
    [
        [True, False],
        [[1, 2], [2, 1], []],
        [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}],
        [1.5, 2.5],
        ["x", "y"],
    ],
    ids=["booleans", "lists", "structs", "floats", "texts"],
)
def test_a_value_has_one_bucket_wherever_it_stands(values: list[Any]) -> None:
    alone = [buckets([value], pa.array(values).type)[0] for value in values]
    assert buckets(values) == alone
    assert buckets([*values[::-1], None])[:-1] == alone[::-1]
    assert len(set(alone)) == len(values)


def test_a_slice_has_the_buckets_of_its_rows() -> None:
    for values in (["x", "yy", "", "zzz", None], [1, 2, 3, None, 5], [b"a", b"", b"b", b"c", b"d"]):
        whole = pa.array(values)
        assert bucket_of([whole.slice(2, 2)], 2, MANY).tolist() == buckets(values, whole.type)[2:4]


@pytest.mark.parametrize(
    "kind",
    [pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.date32(), pa.time64("us"), pa.duration("s")],
    ids=str,
)
def test_times_have_buckets(kind: pa.DataType) -> None:
    storage = pa.int32() if kind == pa.date32() else pa.int64()
    times = pa.array([0, 1, 86_399, None], storage).cast(kind)
    found = bucket_of([times], 4, MANY).tolist()
    assert len(set(found)) == 4
    assert found == bucket_of([times.take(pa.array([0, 1, 2, 3]))], 4, MANY).tolist()


def test_several_keys_count_in_their_order() -> None:
    one, two = pa.array(["a", "b"]), pa.array(["b", "a"])
    straight, crossed = bucket_of([one, two], 2, MANY), bucket_of([two, one], 2, MANY)
    assert straight.tolist() == crossed.tolist()[::-1]
    assert straight[0] != straight[1]


def test_without_keys_or_with_one_bucket_there_is_one() -> None:
    assert bucket_of([], 3, 8).tolist() == [0, 0, 0]
    assert bucket_of([pa.array([1, 2, 3])], 3, 1).tolist() == [0, 0, 0]
    assert bucket_of([pa.array([], pa.string())], 0, 8).tolist() == []


@pytest.mark.parametrize(
    "values",
    [list(range(8_000)), [f"10.0.{i // 256}.{i % 256}" for i in range(8_000)]],
    ids=["numbers", "addresses"],
)
@pytest.mark.parametrize("count", [2, 7, 8])
def test_buckets_are_about_equally_full(values: list[Any], count: int) -> None:
    sizes = np.bincount(buckets(values, count=count), minlength=count)
    assert sizes.min() > 0.85 * len(values) / count and sizes.max() < 1.15 * len(values) / count


# ------------------------------------------------------------------------------------------------
# where Spark puts them


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 13, 64, 200])
def test_bucket_ids_are_one_for_each_partition(count: int) -> None:
    ids = bucket_ids(count)
    assert [_murmur3(number) % count for number in ids] == list(range(count))
    assert len(set(ids)) == count and min(ids) == 0


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_our_hash_is_that_of_spark(spark: SparkSession) -> None:
    numbers = [*range(300), -1, -(2**31), 2**31 - 1, 123_456_789]
    frame = spark.createDataFrame([(number,) for number in numbers], "n int").selectExpr(
        "n", "hash(n) as h", "pmod(hash(n), 7) as p"
    )
    found = {row["n"]: (row["h"], row["p"]) for row in frame.collect()}
    assert found == {number: (_murmur3(number), _murmur3(number) % 7) for number in numbers}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_puts_each_bucket_into_a_partition_of_its_own(spark: SparkSession) -> None:
    for count in (2, 4, 7):
        rows = spark.createDataFrame([(number,) for number in bucket_ids(count)], "bucket int")
        placed = (
            rows.repartition(count, "bucket")
            .selectExpr("bucket", "spark_partition_id() as partition")
            .collect()
        )
        assert {row["bucket"]: row["partition"] for row in placed} == {
            b: p for p, b in enumerate(bucket_ids(count))
        }
