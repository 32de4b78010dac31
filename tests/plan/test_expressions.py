"""Expressions inside plans: what is put in place of a column leaves the rest as it was."""

from __future__ import annotations

import pyarrow as pa

import thalweg as tw
from thalweg.expr import col, parse
from thalweg.plan.expressions import substitute


def test_all_kinds_of_expressions_keep_their_settings() -> None:
    for text, expected in (
        ("try_cast(a as int)", "TRY_CAST(b AS int)"),
        ("cast(a as int)", "CAST(b AS int)"),
        (
            "case when a > 1 then a else c end",
            "CASE WHEN b > 1 THEN b ELSE c END",
        ),
        ("coalesce(a, 1)", "coalesce(b, 1)"),
        ("1", "1"),
    ):
        assert str(substitute(parse(text), {"a": col("b")})) == expected


def test_a_try_cast_in_a_window_join_gives_null_for_text_that_is_no_number() -> None:
    """Such a cast became a plain one, which ended the query."""
    a = tw.source("a", pa.schema([("k", pa.int64()), ("x", pa.string())]))
    b = tw.source("b", {"k": "int64"})
    pairs = a.window_join(
        b, "k", window=tw.band(before=5, after=5), where="try_cast(l.x as int) > 1", select=["l.x"]
    )
    feeds = {
        "a": [tw.point({"k": 1, "x": text}, 1) for text in ("7", "none")],
        "b": [tw.point({"k": 1}, 2)],
    }
    assert [row["x"] for _, _, row in tw.table(pairs, feeds)] == ["7"]
