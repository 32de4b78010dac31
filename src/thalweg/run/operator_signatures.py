"""When two operators of a host are the same, so that queries may share one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

from thalweg.expr import Expr
from thalweg.graph.graph_operator import GraphOperator
from thalweg.plan.nodes import Node

__all__ = ["Signature", "signature_of"]

Signature: TypeAlias = tuple[object, ...]


def signature_of(node: Node, before: Sequence[GraphOperator]) -> Signature:
    """Equal for two nodes that do the same to the same inputs: their type, their fields, and the
    operators they read."""
    values = tuple(
        (entry.name, _signature(getattr(node, entry.name)))
        for entry in fields(node)
        if entry.init and not isinstance(getattr(node, entry.name), Node)
    )
    return (type(node), values, tuple(id(operator) for operator in before))


def _signature(value: Any) -> object:
    if isinstance(value, Expr):
        return ("expression", value.key())
    if isinstance(value, (tuple, list)):
        return tuple(map(_signature, value))
    if isinstance(value, Mapping):
        return tuple((key, _signature(item)) for key, item in value.items())
    try:
        hash(value)
    except TypeError:
        return ("object", id(value))  # equal to itself alone
    return value
