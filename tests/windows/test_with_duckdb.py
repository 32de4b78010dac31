"""Time and row windows beside DuckDB over the stored data: the same tables."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw

ROWS = 400


@pytest.fixture(scope="module")
def packets() -> pa.Table:
    rng = np.random.default_rng(4)
    ts = np.sort(rng.choice(5_000, ROWS, replace=False))
    columns = {"ts": ts, "src": rng.integers(0, 5, ROWS), "len": rng.integers(40, 1_500, ROWS)}
    return pa.table({"_start": ts, "_end": ts + 1, "number": np.arange(1, ROWS + 1), **columns})


def ours(query: tw.Stream, packets: pa.Table, *, shuffled: bool) -> list[tuple[object, ...]]:
    order = np.random.default_rng(5).permutation(ROWS) if shuffled else np.arange(ROWS)
    fed = packets.take(pa.array(order)).select(["_start", "_end", "src", "len"])
    return sorted(
        (start, end, *payload.values()) for start, end, payload in tw.table(query, {"packets": fed})
    )


def theirs(sql: str, packets: pa.Table) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.register("packets", packets)
        return sorted(connection.execute(sql).fetchall())


STREAM = tw.source("packets", {"src": "int64", "len": "int64"})


def test_time_sliding(packets: pa.Table) -> None:
    query = STREAM.group_by("src").sliding(600, 100).aggregate(n=tw.count(), most=tw.max_("len"))
    sql = """
        select w, w + 600, src, count(*), max(len)
        from packets, (select unnest(range(-500, 5100, 100)) as w)
        where w <= ts and ts < w + 600 group by w, src
    """
    assert ours(query, packets, shuffled=True) == theirs(sql, packets)


def test_row_sliding_by_rank(packets: pa.Table) -> None:
    query = STREAM.sliding(50, 10, over=tw.rank("ts")).aggregate(total=tw.sum_("len"))
    sql = """
        select ts, ts + 1, total from (
            select ts, number,
                   sum(len) over (order by ts rows between 49 preceding and current row) as total
            from packets
        ) where number % 10 = 0
    """
    assert ours(query, packets, shuffled=True) == theirs(sql, packets)


def test_row_sliding_by_arrival_in_partitions(packets: pa.Table) -> None:
    query = STREAM.sliding(20, 5, over=tw.rows(), partition_by="src").aggregate(most=tw.max_("len"))
    sql = """
        select ts, ts + 1, src, most from (
            select ts, src, row_number() over (partition by src order by number) as own,
                   max(len) over (
                       partition by src order by number rows between 19 preceding and current row
                   ) as most
            from packets
        ) where own % 5 = 0
    """
    assert ours(query, packets, shuffled=False) == theirs(sql, packets)


def test_slide_by_tuple(packets: pa.Table) -> None:
    query = STREAM.slide_by_tuple(300).aggregate(n=tw.count())
    sql = (
        "select ts - 299, ts + 1, count(*) over (order by ts range between 299 preceding and "
        "current row) from packets"
    )
    assert ours(query, packets, shuffled=True) == theirs(sql, packets)


def test_landmark(packets: pa.Table) -> None:
    query = STREAM.group_by("src").landmark(1_000).aggregate(n=tw.count())
    sql = """
        select w * 1000, coalesce(lead(w) over own * 1000, 9223372036854775807), src,
               sum(n) over own
        from (select ts // 1000 as w, src, count(*) as n from packets group by all)
        window own as (partition by src order by w)
    """
    assert ours(query, packets, shuffled=True) == theirs(sql, packets)
