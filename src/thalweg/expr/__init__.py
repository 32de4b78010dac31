"""Column expressions: built in Python or from SQL text, typed when the plan is built, evaluated on
whole Arrow columns.

>>> import pyarrow as pa
>>> rows = pa.RecordBatch.from_pydict({"src": ["a", "b", None], "len": [10, 50, 90]})
>>> (col("len") > 40).evaluate(Frame.of(rows)).to_pylist()
[False, True, True]
>>> parse("upper(src) || '!'").evaluate(Frame.of(rows)).to_pylist()
['A!', 'B!', None]
>>> parse("len / 4").type_in(rows.schema)
DataType(double)
"""

from thalweg.model import _arrow  # noqa: F401  # isort: skip  # before anything converts

from thalweg.expr.analysis import is_monotone_in, is_monotone_in_start
from thalweg.expr.case import Case
from thalweg.expr.frame import Frame
from thalweg.expr.nodes import Call, Cast, Column, Expr, Literal, call, col, lit
from thalweg.expr.sql import ExprLike, as_expr, parse
from thalweg.expr.user_calls import UserCall

__all__ = [
    "Call",
    "Case",
    "Cast",
    "Column",
    "Expr",
    "ExprLike",
    "Frame",
    "Literal",
    "UserCall",
    "as_expr",
    "call",
    "col",
    "is_monotone_in",
    "is_monotone_in_start",
    "lit",
    "parse",
]
