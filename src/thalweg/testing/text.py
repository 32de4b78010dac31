"""How rows, elements and queries are written in messages: as Python that can be pasted into a
test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import pyarrow as pa

from thalweg.expr import Expr
from thalweg.model import INFINITY, Adjust, Cti, Element, Insert, Row
from thalweg.model.type_names import shown_columns
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.nodes import Node, Source

__all__ = ["show_element", "show_query", "show_rows", "show_value"]


def show_value(value: Any) -> str:
    """A payload value as Python.

    >>> show_value({"v": float("nan"), "k": ["a", None]})
    "{'v': float('nan'), 'k': ['a', None]}"
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{name!r}: {show_value(item)}" for name, item in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(show_value(item) for item in value) + "]"
    return repr(value)


def _time(time: int) -> str:
    return "None" if time == INFINITY else str(time)


def show_element(element: Element) -> str:
    """The call that makes an element.

    >>> from thalweg.model import adjust, cti, insert, remove
    >>> for element in (insert({"v": 1}, 3), adjust({"v": 1}, 3, None, 7), remove({"v": 1}, 3, 7)):
    ...     print(show_element(element))
    insert({'v': 1}, 3)
    adjust({'v': 1}, 3, None, 7)
    remove({'v': 1}, 3, 7)
    >>> show_element(cti(4, {"v": 1}))
    "cti(4, {'v': 1})"
    """
    if isinstance(element, Cti):
        scope = "" if element.scope is None else f", {show_value(element.scope)}"
        return f"cti({_time(element.time)}{scope})"
    row = f"{show_value(element.payload)}, {element.start}"
    if isinstance(element, Insert):
        return f"insert({row})" if element.end == INFINITY else f"insert({row}, {element.end})"
    if element.new_end == element.start:
        return f"remove({row}, {_time(element.end)})"
    assert isinstance(element, Adjust)
    return f"adjust({row}, {_time(element.end)}, {_time(element.new_end)})"


def show_rows(rows: Iterable[Row]) -> str:
    """A table, one row a line, as Python; `(empty)` when there is nothing.

    >>> print(show_rows([(3, INFINITY, {"v": 1})]))
      (3, INFINITY, {'v': 1}),
    """
    lines = [f"  ({s}, {'INFINITY' if e == INFINITY else e}, {show_value(p)})," for s, e, p in rows]
    return "\n".join(lines) or "  (empty)"


def show_query(query: Node) -> str:
    """A query as a tree, inputs below the nodes that read them."""
    return "\n".join(_tree(query, "  ", ""))


def _tree(node: Node, indent: str, role: str) -> list[str]:
    below, beside = [], []
    for field in fields(node):
        value = getattr(node, field.name) if field.init else None
        if isinstance(value, Node):
            below.append((field.name, value))
        elif isinstance(value, tuple) and value and isinstance(value[0], Node):
            below += [(f"{field.name}[{at}]", child) for at, child in enumerate(value)]
        elif (
            field.init
            and not (isinstance(node, Source) and field.name in ("ingress", "declared", "feed"))
            and field.name != "facts"
            and value is not None
        ):
            beside.append(f"{field.name}={_setting(value)}")
    lines = [f"{indent}{role}{type(node).__name__}({', '.join(beside)})"]
    for name, child in below:
        lines += _tree(child, indent + "    ", f"{name}: ")
    return lines


def _setting(value: Any) -> str:
    if isinstance(value, pa.Schema):
        return f"({shown_columns(value)})"
    if isinstance(value, tuple):
        return "(" + ", ".join(_setting(item) for item in value) + ")"
    return str(value) if isinstance(value, (Expr, AggregateCall)) else repr(value)
