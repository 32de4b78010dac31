"""Every query of the thesis: it parses, explains, runs, and its final table is the one DuckDB
computes from the stored packets."""

from __future__ import annotations

import pyarrow as pa
import pytest

import thalweg as tw
from tests.sql.packets import (
    COLUMNS,
    DISORDER,
    answers,
    answers_divided,
    ask_duckdb,
    links,
    streams,
)
from tests.sql.thesis import PARAMETERS, THESIS
from thalweg.errors import SqlError
from thalweg.testing import assert_same_table


@pytest.fixture(scope="module")
def packets() -> dict[str, pa.Table]:
    return links()


@pytest.mark.parametrize("name", THESIS)
def test_query_of_the_thesis_has_the_table_that_duckdb_has(
    name: str, packets: dict[str, pa.Table]
) -> None:
    query = tw.sql(THESIS[name].text, streams(), parameters=PARAMETERS)
    assert "logical plan" in query.explain()
    expected = ask_duckdb(THESIS[name].duckdb, packets)
    assert len(expected) > 3
    assert_same_table(expected, answers(query, packets))
    assert_same_table(expected, answers_divided(query, packets))


@pytest.mark.parametrize("name", [name for name, query in THESIS.items() if query.printed])
def test_a_slip_of_the_print_is_refused_at_its_place(name: str) -> None:
    with pytest.raises(SqlError) as caught:
        tw.sql(THESIS[name].printed, streams(), parameters=PARAMETERS)
    assert THESIS[name].slip in str(caught.value)


def test_heavy_hitters_are_those_of_q6_4(packets: dict[str, pa.Table]) -> None:
    main = tw.source("Main", COLUMNS, disorder=DISORDER, insert_only=True)
    query = tw.sql(
        "SELECT heavy_hitters(srcIP, 0.05) AS heavy [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM "
        "Main",
        Main=main,
    )
    exact = {
        (start, row["srcIP"], row["n"])
        for start, _, row in ask_duckdb(THESIS["Q6-4"].duckdb, packets)
    }
    found = answers(query, packets)
    assert {
        (start, *hitter.values()) for start, _, row in found for hitter in row["heavy"]
    } == exact
