"""The code of a query's modules: a digest of each, by name and version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from thalweg.expr.user_calls import UserFunction
from thalweg.plan.nodes import Node, walk
from thalweg.udm.digest import code_digest
from thalweg.udm.module import Module

__all__ = ["module_digests"]


def module_digests(root: Node) -> dict[str, str]:
    """The digests of all modules and functions that users brought into a plan."""
    found: dict[str, str] = {}
    for node in walk(root):
        for value in vars(node).values():
            if not isinstance(value, Node):
                _collect(value, found)
    return found


def _collect(value: Any, found: dict[str, str]) -> None:
    if isinstance(value, Module):
        found[value.label] = code_digest(value.make)
    elif isinstance(value, UserFunction):
        found[value.label] = code_digest(value.run)
    elif is_dataclass(value) and not isinstance(value, type):
        for entry in fields(value):
            _collect(getattr(value, entry.name, None), found)
    elif isinstance(value, Mapping):
        for entry in value.values():
            _collect(entry, found)
    elif isinstance(value, (tuple, list, set, frozenset)):
        for entry in value:
            _collect(entry, found)
