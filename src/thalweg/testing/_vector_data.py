"""One line of a vector file: a query, its inputs, what must come out. Inputs become elements, and
get a schema.

The format names no types: whole numbers are int64, numbers with a fraction float64, and a column
that is always null takes the type it has in another source, or int64. A source whose payloads are
empty gets one column, `FILLER`, of nulls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from thalweg.model import INFINITY, Adjust, Cti, Element, Insert, Row
from thalweg.testing._vector_expr import VectorError

__all__ = ["FILLER", "PARTITION", "Vector", "read_vector"]

PARTITION = "_p"
FILLER = "_nothing"


@dataclass(frozen=True)
class Vector:
    """A case as it stands in the file, with inputs and expectations as the model has them."""

    name: str
    op: Mapping[str, Any]
    inputs: Mapping[str, list[Element]]
    schemas: Mapping[str, pa.Schema]
    expected: list[Row] | None
    expected_error: str | None = None
    expected_ctis: tuple[tuple[int, Any], ...] = ()
    """Finite promises that must have been made: the time, and the partition as a one-tuple or None
    for all."""


def read_vector(line: str) -> Vector:
    """A case from its line. Raises VectorError that says what is wrong with it."""
    try:
        raw = json.loads(line)
    except json.JSONDecodeError as reason:
        raise VectorError(f"not JSON: {reason}") from reason
    if not isinstance(raw, dict) or not {"name", "op", "inputs"} <= raw.keys():
        raise VectorError("a case is an object with name, op and inputs")
    if not isinstance(raw["inputs"], dict) or not isinstance(raw["op"], dict):
        raise VectorError(f"{raw['name']}: op and inputs must be objects")
    if raw.get("expected_table") is None and not raw.get("expected_error"):
        raise VectorError(f"{raw['name']}: a case needs an expected_table or an expected_error")
    inputs = {
        name: [_element(item, name) for item in items] for name, items in raw["inputs"].items()
    }
    schemas = _schemas(inputs)
    table = raw.get("expected_table")
    return Vector(
        name=str(raw["name"]),
        op=raw["op"],
        inputs={
            name: [_complete(element, schemas[name]) for element in elements]
            for name, elements in inputs.items()
        },
        schemas=schemas,
        expected=None if table is None else [_row(item) for item in table],
        expected_error=raw.get("expected_error"),
        expected_ctis=tuple(
            _promise(item) for item in raw.get("expected_ctis") or () if item is not None
        ),
    )


def _complete(element: Element, schema: pa.Schema) -> Element:
    """The element with a null for every column that its payload lacks."""
    if isinstance(element, Cti):
        return element
    return replace(element, payload={**dict.fromkeys(schema.names), **element.payload})


def _time(value: Any) -> int:
    if value is None:
        return INFINITY
    if isinstance(value, bool) or not isinstance(value, int):
        raise VectorError(f"a time is a whole number or null; got {value!r}")
    return value


def _element(item: Any, source: str) -> Element:
    match item:
        case ["insert", start, end, dict(payload)]:
            return Insert(payload, _time(start), _time(end))
        case ["start_edge", start, dict(payload)]:
            return Insert(payload, _time(start), INFINITY)
        case ["end_edge", end, start, dict(payload)]:
            return Adjust(payload, _time(start), INFINITY, _time(end))
        case ["cti", time]:
            return Cti(_time(time))
        case ["cti_p", time, key]:
            return Cti(_time(time), {PARTITION: key})
    raise VectorError(f"source {source!r}: {json.dumps(item)} is not an element")


def _row(item: Any) -> Row:
    match item:
        case [start, end, dict(payload)]:
            return _time(start), _time(end), payload
    raise VectorError(f"expected_table: {json.dumps(item)} is not a row [start, end, payload]")


def _promise(item: Any) -> tuple[int, Any]:
    match item:
        case [time, key]:
            return _time(time), (key,)
    return _time(item), None


def _schemas(inputs: Mapping[str, Sequence[Element]]) -> dict[str, pa.Schema]:
    seen: dict[str, dict[str, set[str]]] = {}
    for source, elements in inputs.items():
        columns = seen.setdefault(source, {})
        for element in elements:
            for name, value in ({} if isinstance(element, Cti) else element.payload).items():
                columns.setdefault(name, set()).add(_kind(value))
    everywhere: dict[str, set[str]] = {}
    for columns in seen.values():
        for name, kinds in columns.items():
            everywhere.setdefault(name, set()).update(kinds)
    silent = [
        source for source, elements in inputs.items() if all(isinstance(e, Cti) for e in elements)
    ]
    return {
        source: _schema(everywhere if source in silent else columns, everywhere)
        for source, columns in seen.items()
    }


def _schema(columns: Mapping[str, set[str]], everywhere: Mapping[str, set[str]]) -> pa.Schema:
    fields = [(name, _type(kinds, everywhere[name], name)) for name, kinds in columns.items()]
    return pa.schema(fields or [(FILLER, pa.int64())])


def _kind(value: Any) -> str:
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, "text")):
        if isinstance(value, kind):
            return name
    if isinstance(value, list):
        inside: Iterable[str] = {_kind(item) for item in value} - {"null"}
        return f"list of {next(iter(inside), 'int')}"
    if value is None:
        return "null"
    raise VectorError(f"{value!r} is not a payload value of the format")


def _type(kinds: set[str], elsewhere: set[str], name: str) -> pa.DataType:
    types = (kinds - {"null"}) or (elsewhere - {"null"}) or {"int"}
    if types == {"int"} and elsewhere - {"null"} == {
        "int",
        "float",
    }:  # one column of numbers across the sources
        types = {"float"}
    if types == {"int", "float"}:
        types = {"float"}
    if len(types) > 1:
        raise VectorError(
            f"the column {name!r} holds values of several kinds: {', '.join(sorted(types))}"
        )
    kind = next(iter(types))
    if kind.startswith("list of "):
        return pa.list_(_type({kind.removeprefix("list of ")}, set(), name))
    return {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "text": pa.string()}[kind]
