"""Arguments of text functions that are the same for all rows, and the answer where one is null."""

from __future__ import annotations

import pyarrow as pa

from thalweg.expr.kinds import Datum, Refusal, constant

__all__ = ["constant_text", "nothing", "whole_constant"]


def nothing(value: Datum, type_: pa.DataType | None = None) -> Datum:
    """Null for every row."""
    kind = type_ or value.type
    return pa.scalar(None, kind) if isinstance(value, pa.Scalar) else pa.nulls(len(value), kind)


def constant_text(value: Datum, what: str) -> str | None:
    """A text; null is None."""
    found = constant(value, what)
    if found is not None and not isinstance(found, str):
        raise Refusal(f"{what} must be text, not {value.type}")
    return found


def whole_constant(value: Datum, what: str, least: int) -> int:
    """A whole number from `least` on."""
    found = constant(value, what)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found < 2**31:
        raise Refusal(f"{what} must be a whole number from {least} on, not {found!r}")
    return found
