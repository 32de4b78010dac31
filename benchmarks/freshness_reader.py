"""A plain Spark source of updates that came at a fixed rate, for the baselines of `freshness_spark`:
nothing of this system is in it but the numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from benchmarks.freshness_spark import is_kept, row_keys

__all__ = ["register"]


class _Range(InputPartition):
    def __init__(self, begin: int, end: int) -> None:
        super().__init__(None)
        self.begin = begin
        self.end = end


class _Reader(DataSourceStreamReader):
    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"n": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802 - Spark's name
        told = self._options
        arrived = int((time.time() - told["began"]) * told["rate"])
        most = told["limit"] / told["share"]
        if told["contender"] == "newest per key":
            most = float("inf")
        return {"n": int(max(start["n"], min(arrived, start["n"] + most)))}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        return ReadAllAvailable()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        with Path(self._options["log"]).open("a", encoding="ascii") as log:
            log.write(f"{end['n']}\n")
        middle = (start["n"] + end["n"]) // 2
        return [_Range(start["n"], middle), _Range(middle, end["n"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Range)
        told = self._options
        keys = row_keys(partition.begin, partition.end, told["keys"], told["skew"])
        rows = np.arange(partition.begin, partition.end)
        if told["share"] < 1:
            rows = is_kept(partition.begin, partition.end, told["share"])
            keys = keys[rows - partition.begin]
        yield pa.record_batch([pa.array(keys), pa.array(rows)], names=["key", "number"])


def register(
    spark: Any,
    log: str,
    began: float,
    rate: float,
    keys: int,
    skew: float,
    share: float,
    limit: int,
    contender: str,
) -> None:
    options = {
        "log": log,
        "began": began,
        "rate": rate,
        "keys": keys,
        "skew": skew,
        "share": share,
        "limit": limit,
        "contender": contender,
    }

    class Updates(DataSource):
        @classmethod
        def name(cls) -> str:
            return "thalweg_updates"

        def schema(self) -> str:
            return "key long, number long"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            return _Reader(options)

    spark.dataSource.register(Updates)
