"""The JSON Schema of written plans, from the classes that may stand in them."""

from __future__ import annotations

import types
import typing
from dataclasses import is_dataclass
from typing import Any

import pyarrow as pa

from thalweg.aggregates import Aggregate
from thalweg.expr.user_calls import UserFunction
from thalweg.plan.nodes import Node
from thalweg.plan.written_classes import class_version, field_types, known_classes
from thalweg.udm.module import Module

__all__ = ["plan_schema"]

_TEXT: dict[str, Any] = {"type": "string"}
_SIMPLE: dict[type, dict[str, Any]] = {
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"anyOf": [{"type": "number"}, {"required": ["float"]}]},
    str: _TEXT,
    bytes: {"required": ["value"]},
    pa.Schema: {"required": ["schema"]},
    pa.DataType: {"required": ["type"]},
    Module: {"required": ["module", "digest"]},
    UserFunction: {"required": ["function", "digest"]},
}


def plan_schema() -> dict[str, Any]:
    """What `write_plan` writes, as a JSON Schema with a definition for every class.

    >>> plan_schema()["$defs"]["Shift"]["properties"]["by"]["anyOf"][0]
    {'type': 'integer'}
    """
    classes = known_classes()
    nodes = [name for name, class_ in classes.items() if issubclass(class_, Node)]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "format": {"const": "thalweg plan"},
            "version": {"const": 1},
            "nodes": {"type": "array", "items": _one_of(nodes)},
            "root": {"type": "integer"},
        },
        "required": ["format", "version", "nodes", "root"],
        "$defs": {name: _described(class_, classes) for name, class_ in classes.items()},
    }


def _described(class_: type, classes: dict[str, type]) -> dict[str, Any]:
    properties: dict[str, Any] = {"class": {"const": class_.__name__}}
    if is_dataclass(class_):
        properties["version"] = {"const": class_version(class_)}
        properties |= {n: _typed(kind, classes) for n, kind in field_types(class_).items()}
    else:
        properties["parameters"] = {"type": "array"}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _typed(kind: Any, classes: dict[str, type]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_typed(part, classes) for part in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is tuple and arguments[-1:] == (Ellipsis,):
        return {"type": "array", "items": _typed(arguments[0], classes)}
    if origin is tuple:
        return {"type": "array", "prefixItems": [_typed(part, classes) for part in arguments]}
    if not isinstance(kind, type) or kind is object:
        return {}
    if issubclass(kind, Node):
        return {"type": "object", "properties": {"node": {"type": "integer"}}, "required": ["node"]}
    for simple, described in _SIMPLE.items():
        if issubclass(kind, simple):
            return described
    names = [name for name, class_ in classes.items() if issubclass(class_, kind)]
    return _one_of(names) if names or issubclass(kind, Aggregate) else {}


def _one_of(names: list[str]) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}
