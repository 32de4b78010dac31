"""The strategies give what they say, and the coincidences that operators stumble over."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from thalweg.model import INFINITY, Element, Row, first_violation
from thalweg.plan.nodes import Node, Source
from thalweg.testing import ReferenceEngine, assert_physically_independent
from thalweg.testing.strategies import (
    KEYED,
    element_sequences,
    hopping_windows,
    queries,
    rows,
    values,
    windows,
)
from thalweg.windows import HoppingWindow, SessionWindow, SnapshotWindow

A, B = Source("a", KEYED), Source("b", KEYED)
TYPES = pa.schema(
    [("t", pa.string()), ("f", pa.float64()), ("b", pa.bool_()), ("l", pa.list_(pa.int64()))]
)


@given(rows(TYPES, max_rows=4, times=(5, 9), durations=(2, 3), nulls=("t",)))
def test_rows_fit_their_schema_and_bounds(table: list[Row]) -> None:
    assert len(table) <= 4
    for start, end, payload in table:
        assert 5 <= start <= 9 and 2 <= end - start <= 3
        assert all(payload[name] is not None for name in ("f", "b", "l"))
    pa.Table.from_pylist([dict(payload) for _, _, payload in table], TYPES)


def test_coincidences_are_found() -> None:
    find(rows(infinite=True), lambda table: any(end == INFINITY for _, end, _ in table))
    find(rows(), lambda table: any(one[1] == two[0] for one in table for two in table))
    find(rows(), lambda table: any(table.count(row) > 1 for row in table))
    find(rows(nulls=("k",)), lambda table: any(payload["k"] is None for _, _, payload in table))
    find(hopping_windows(), lambda window: window.hop > window.size)
    find(windows(), lambda window: isinstance(window, HoppingWindow))
    find(windows(), lambda window: isinstance(window, SessionWindow))
    find(windows(), lambda window: isinstance(window, SnapshotWindow))


def test_a_type_without_a_strategy_is_named() -> None:
    with pytest.raises(ValueError, match="timestamp"):
        values(pa.timestamp("us"))


@given(element_sequences(max_rows=5, infinite=True))
def test_sequences_keep_their_promises(sequence: list[Element]) -> None:
    assert first_violation(sequence) is None


@given(queries(A, B), rows(max_rows=4), rows(max_rows=4), st.integers())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_queries_are_queries(query: Node, one: list[Row], two: list[Row], seed: int) -> None:
    assert (query.schema.names, query.schema.types) == (KEYED.names, KEYED.types)
    used = {
        name: table
        for name, table in (("a", one), ("b", two))
        if name in ReferenceEngine(query).schemas
    }
    assert_physically_independent(
        query, used, forms=2, seed=seed, engine=ReferenceEngine, consistency="final"
    )
