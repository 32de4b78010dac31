"""The functions of expressions and SQL as a page of the documentation, made from the tables that
the parser reads: `python -m thalweg.sql.reference > docs/functions.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from thalweg.aggregates.registry import aggregate_names
from thalweg.expr.casts import TYPE_NAMES
from thalweg.expr.functions import ALIASES, CHANGING, TOPICS, Function
from thalweg.sql.aggregates import arity_of
from thalweg.sql.grammar import TABLE_FUNCTIONS

__all__ = ["page"]

_SYMBOLS = {
    "add": "a + b", "subtract": "a - b", "multiply": "a * b", "divide": "a / b",
    "floor_div": "a // b", "mod": "a % b", "negate": "-a",
    "eq": "a = b", "ne": "a <> b", "lt": "a < b", "le": "a <= b", "gt": "a > b", "ge": "a >= b",
    "and": "a AND b", "or": "a OR b", "not": "NOT a", "in": "a IN (1, 2)",
    "is_null": "a IS NULL", "is_not_null": "a IS NOT NULL", "is_distinct": "a IS DISTINCT FROM b",
    "like": "s LIKE 'a%'", "ilike": "s ILIKE 'a%'", "regexp_like": "s RLIKE '^a'",
    "concat": "a || b", "position": "POSITION('a' IN s)",
    "extract": "EXTRACT(hour FROM t)", "at_time_zone": "t AT TIME ZONE 'Europe/Berlin'",
    "element_at": "l[1]", "field": "s.name",
}  # fmt: skip


def page() -> str:
    """The page, in Markdown."""
    parts = [
        "# Functions",
        (
            "Made from the tables that the parser reads; the same in expressions of the fluent API "
            "and in SQL."
        ),
    ]
    for topic, functions in TOPICS.items():
        parts += [
            f"## {topic}",
            _table(("function", "written", "arguments", "also"), map(_row, functions)),
        ]
    aggregates = [(f"`{name}`", str(arity_of(name))) for name in aggregate_names()]
    windows = ", ".join(f"`{name}`" for name in TABLE_FUNCTIONS)
    types = ", ".join(f"`{name}`" for name in (*TYPE_NAMES, "decimal(p, s)"))
    changing = ", ".join(f"`{name}`" for name in sorted(CHANGING))
    parts += [
        "## Aggregates",
        "With `FILTER (WHERE ...)`; `count`, `sum`, `avg`, `min` and `max` with `DISTINCT`.",
        _table(("aggregate", "arguments"), aggregates),
        f"## Windows in FROM\n\n{windows}.",
        f"## Types of CAST, TRY_CAST and ::\n\n{types}.",
        (
            f"## Left out on purpose\n\n{changing}: they give another value whenever they are "
            "computed, and an answer that is taken back has to be the one that was given."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _row(function: Function) -> tuple[str, ...]:
    also = ", ".join(f"`{alias}`" for alias, name in ALIASES.items() if name == function.name)
    symbol = _SYMBOLS.get(function.name)
    written = f"`{symbol}`".replace("|", "\\|") if symbol else ""
    return f"`{function.name}`", written, function.arity.partition(" argument")[0], also


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page())
