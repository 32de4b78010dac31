"""Names with dots, against a schema: `payload.user.id` is a field of the column `payload` where no
column has the whole name.

The longest name that is a column counts, so that columns with dots in their names and the sides of
a join (`l.price`) stay what they are.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.expr.nodes import Call, Column, Expr, Literal

__all__ = ["with_fields"]


def with_fields(expr: Expr, schema: pa.Schema) -> Expr:
    """The expression with fields of structs where a name says so; anything else stays.

    >>> from thalweg.expr import parse
    >>> schema = pa.schema([("p", pa.struct([("x", pa.int64())])), ("q.x", pa.int64())])
    >>> str(with_fields(parse("p.x + q.x"), schema))
    "field(p, 'x') + q.x"
    """
    if isinstance(expr, Column):
        return _field(expr, schema)
    parts = [with_fields(part, schema) for part in expr.parts()]
    same = all(new is old for new, old in zip(parts, expr.parts(), strict=True))
    return expr if same else expr.with_parts(parts)


def _field(column: Column, schema: pa.Schema) -> Expr:
    words = column.name.split(".")
    for size in range(len(words), 0, -1):
        name = ".".join(words[:size])
        index = schema.get_field_index(name)
        if index >= 0 and (size == len(words) or pa.types.is_struct(schema.field(index).type)):
            found: Expr = Column(name)
            for word in words[size:]:
                found = Call("field", (found, Literal(word)))
            return column if size == len(words) else found
    return column
