"""SQL text to expressions.

The text is one expression: columns (`len`, `l.price`, `"odd name"`), numbers, 'text', TRUE, FALSE,
NULL, TIMESTAMP '2026-01-31 12:00', DATE '2026-01-31', INTERVAL '10' MINUTE; `+ - * / // % ||`, `=
== <> != < <= > >=`, AND, OR, NOT, [NOT] BETWEEN, [NOT] IN (constants), [NOT] LIKE, ILIKE and RLIKE,
IS [NOT] NULL (or TRUE, FALSE), IS [NOT] DISTINCT FROM, CASE, CAST, TRY_CAST, `x::int`, IF,
`list[1]`, `struct.field`, AT TIME ZONE, and the functions of the table. Words and function names
may be in either case; column names are exact. `//` and DIV both round down. There are no comments.
Anything else is refused, with a caret under the place. How each part is read: `reader`.
"""

from __future__ import annotations

from thalweg.errors import ExpressionError
from thalweg.expr.nodes import Expr

__all__ = ["ExprLike", "as_expr", "parse"]

ExprLike = Expr | str
"""An expression, or the SQL text of one."""

_DEEPEST = 250
"""Evaluation goes down the tree by recursion; this depth leaves room for the rest of the
program."""


def as_expr(value: ExprLike) -> Expr:
    """An expression from what a user wrote: text is SQL."""
    if isinstance(value, Expr):
        if value.depth() > _DEEPEST:
            raise _too_deep(str(value))
        return value
    if isinstance(value, str):
        return parse(value)
    if callable(value):
        raise ExpressionError(
            "an expression or SQL text is expected, such as 'len > 40' or col('len') > 40; got the "
            f"function {value!r}. A function of Python is called by name once thalweg.udm.function "
            "has registered it."
        )
    raise ExpressionError(
        f"an expression or SQL text is expected; got {value!r}. Wrap a constant as lit({value!r})."
    )


def parse(text: str) -> Expr:
    """Parse SQL text into an expression.

    >>> parse("len > 40 and src in ('a', 'b')")
    <Call len > 40 AND src IN ('a', 'b')>
    >>> parse("cast(substr(x, 1, 2) as int) // 10")
    <Call CAST(substring(x, 1, 2) AS int) // 10>
    """
    # sqlglot is loaded with the first text
    from thalweg.expr._syntax import Source, syntax_tree
    from thalweg.expr.reader import ExpressionReader

    source = Source(text)
    try:
        expr = ExpressionReader(source).convert(syntax_tree(source))
    except RecursionError:
        expr = None
    if expr is None or expr.depth() > _DEEPEST:
        raise _too_deep(text)
    return expr


def _too_deep(text: str) -> ExpressionError:
    return ExpressionError(
        f"the expression is more than {_DEEPEST} levels deep. Use IN (isin), concat(...) or CASE: "
        f"{text[:60]}..."
    )
