"""The scalar forms of Spark's and Flink's manuals, against DuckDB: same rows in, same values
out."""

from __future__ import annotations

import math
from datetime import timedelta

import duckdb
import pytest

from tests.expr.scalar_forms import FORMS, REFUSED, ROWS
from thalweg.errors import ExpressionError
from thalweg.expr import Frame, parse
from thalweg.expr.fields import with_fields


def plain(value: object) -> object:
    """A value as it is compared: numbers by what they say, not by their type."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9)
    return value // timedelta(microseconds=1) if isinstance(value, timedelta) else value


@pytest.mark.parametrize("form", FORMS)
def test_form_equals_duckdb(form: str) -> None:
    rows = ROWS
    frame = Frame.of(rows.combine_chunks().to_batches()[0])
    ours = with_fields(parse(form), rows.schema).evaluate(frame)
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        theirs = connection.execute(f"SELECT {FORMS[form] or form} FROM rows").fetchall()
    assert [plain(value) for value in ours.to_pylist()] == [plain(row[0]) for row in theirs]


def test_there_are_sixty_and_one() -> None:
    assert len(FORMS) == 60


def test_the_one_that_is_refused_is_refused_by_name() -> None:
    with pytest.raises(ExpressionError, match=r"current_timestamp gives another value whenever"):
        parse(REFUSED)
