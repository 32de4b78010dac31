"""`recent` of two steps is the as-of join: on recorded quotes it has the rows of DuckDB's."""

from __future__ import annotations

from benchmarks.patterns import joined_by_duckdb, joined_by_recent, two_connections


def test_recent_has_the_rows_of_an_asof_join() -> None:
    first, second = two_connections()
    expected, _ = joined_by_duckdb(first, second)
    assert sum(expected.values()) > 100
    assert set(expected.values()) == {1}
    for size in (10_000, 37):
        found, _ = joined_by_recent(first, second, size)
        assert found == expected
