"""The classes that may stand in a written plan, found from the types of their fields.

The search begins with all nodes and expressions and follows the annotations of their fields: a
frozen dataclass is written by its own fields, an abstract class stands for its subclasses, those of
users among them. A field of a type that none of this covers makes its class one that cannot be
written, which a test says by name.
"""

from __future__ import annotations

import sys
import types
import typing
from abc import ABC
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeGuard

import pyarrow as pa

from thalweg.aggregates import Aggregate
from thalweg.errors import PlanError
from thalweg.expr import Expr
from thalweg.expr.user_calls import UserFunction
from thalweg.plan.nodes import Node
from thalweg.udm.module import Module

__all__ = [
    "ABSENT",
    "class_version",
    "field_types",
    "find_class",
    "fits",
    "known_classes",
    "written_name",
]

ABSENT = frozenset({"feed"})
"""Fields that are no part of a plan."""

_ROOTS: tuple[type, ...] = (Node, Expr, Aggregate)
_ATOMS: tuple[type, ...] = (
    *(type(None), bool, int, float, str, bytes, pa.Schema, pa.DataType, Module, UserFunction),
    object,
)

_found: dict[str, type] = {}
_seen: set[type] = set()
_types: dict[type, dict[str, Any]] = {}


def known_classes() -> dict[str, type]:
    """By name: the classes that a plan may name, with those defined since the last call."""
    for root in _ROOTS:
        for class_ in _subclasses(root):
            _visit(class_)
    return _found


def written_name(class_: type, place: str) -> str:
    """The name of a class in a plan."""
    if (
        _found.get(class_.__name__) is not class_
        and known_classes().get(class_.__name__) is not class_
    ):
        raise PlanError(
            f"{place}: the class {class_.__name__} cannot be written in a plan: it is no frozen "
            "dataclass of the plan's, or another class has its name."
        )
    return class_.__name__


def find_class(name: object) -> type | None:
    """The class of a name in a plan."""
    if not isinstance(name, str):
        return None
    return _found.get(name) or known_classes().get(name)


def class_version(class_: type) -> int:
    """Raised by a class when the same fields come to mean something else."""
    version: int = getattr(class_, "state_version", 1)
    return version


def field_types(class_: type) -> dict[str, Any]:
    """By field: its type."""
    if class_ not in _types:
        _types[class_] = _field_types(class_)
    return _types[class_]


def _field_types(class_: type) -> dict[str, Any]:
    hints = typing.get_type_hints(class_, _names(class_))
    return {f.name: hints[f.name] for f in fields(class_) if f.init and f.name not in ABSENT}


def _names(class_: type) -> dict[str, Any]:
    """The names that annotations may use: those of the modules of a class and of its bases."""
    names: dict[str, Any] = {}
    for base in reversed(class_.__mro__):
        names |= vars(sys.modules.get(base.__module__, typing))
    return names


def _visit(class_: type) -> None:
    if class_ in _seen:
        return
    _seen.add(class_)
    if not is_dataclass(class_) and not issubclass(class_, Aggregate):
        return
    if not _is_abstract(class_):
        first = _found.setdefault(class_.__name__, class_)
        if _origin(first) == _origin(class_):
            _found[class_.__name__] = class_  # a definition that was run again, as in a notebook
    if is_dataclass(class_):
        for kind in field_types(class_).values():
            for part in _classes_in(kind):
                _visit(part)


def _origin(class_: type) -> tuple[str, str]:
    return class_.__module__, class_.__qualname__


def _is_abstract(class_: type) -> bool:
    """Whether no instance can be made. A family of nodes has no `__post_init__`, which sets the
    schema of a node."""
    family = issubclass(class_, Node) and not hasattr(class_, "__post_init__")
    return family or bool(getattr(class_, "__abstractmethods__", None))


def _classes_in(kind: Any) -> Iterator[type]:
    """The classes that a type is made of, subclasses for abstract ones."""
    if typing.get_origin(kind) is not None:
        for part in typing.get_args(kind):
            yield from _classes_in(part)
    elif isinstance(kind, type) and kind not in _ATOMS:
        yield kind
        if issubclass(kind, ABC):
            yield from _subclasses(kind)


def _subclasses(base: type) -> Iterator[type]:
    below: list[type] = base.__subclasses__()
    for class_ in below:
        # A dataclass with slots replaces the class that it was made of.
        if getattr(sys.modules.get(class_.__module__), class_.__name__, class_) is class_:
            yield class_
        yield from _subclasses(class_)


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of an annotated type.

    >>> fits((1, 2), tuple[int, ...]), fits("a", int | None), fits(True, int)
    (True, False, False)
    """
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if kind is Any or kind is object:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and _fits_tuple(value, arguments)
    if kind is None:
        return value is None
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return _is_class(kind) and isinstance(value, kind)


def _is_class(kind: Any) -> TypeGuard[type]:
    return isinstance(kind, type) and not issubclass(kind, Enum)


def _fits_tuple(value: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return all(fits(item, arguments[0]) for item in value)
    return len(value) == len(arguments) and all(map(fits, value, arguments))
