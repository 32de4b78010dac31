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
from thalweg.plan.nodes import Node
from thalweg.udm.functions import UserFunction
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
    """By name: the classes that a plan may name. What was defined since the last call is among
    them."""
    for root in _ROOTS:
        for made in _subclasses(root):
            _visit(made)
    return _found


def written_name(made: type, place: str) -> str:
    """The name of a class in a plan."""
    if _found.get(made.__name__) is not made and known_classes().get(made.__name__) is not made:
        raise PlanError(
            f"{place}: the class {made.__name__} cannot be written in a plan: it is no frozen dataclass of the plan's, "
            "or another class has its name."
        )
    return made.__name__


def find_class(name: object) -> type | None:
    """The class of a name in a plan."""
    if not isinstance(name, str):
        return None
    return _found.get(name) or known_classes().get(name)


def class_version(made: type) -> int:
    """Raised by a class when the same fields come to mean something else."""
    version: int = getattr(made, "state_version", 1)
    return version


def field_types(made: type) -> dict[str, Any]:
    """By field: its type."""
    if made not in _types:
        _types[made] = _field_types(made)
    return _types[made]


def _field_types(made: type) -> dict[str, Any]:
    hints = typing.get_type_hints(made, _names(made))
    return {f.name: hints[f.name] for f in fields(made) if f.init and f.name not in ABSENT}


def _names(made: type) -> dict[str, Any]:
    """The names that annotations may use: those of the modules of a class and of its bases."""
    names: dict[str, Any] = {}
    for base in reversed(made.__mro__):
        names |= vars(sys.modules.get(base.__module__, typing))
    return names


def _visit(made: type) -> None:
    if made in _seen:
        return
    _seen.add(made)
    if not is_dataclass(made) and not issubclass(made, Aggregate):
        return
    if not _is_abstract(made):
        known = _found.setdefault(made.__name__, made)
        if _origin(known) == _origin(made):
            _found[made.__name__] = made  # a definition that was run again, as in a notebook
    if is_dataclass(made):
        for kind in field_types(made).values():
            for part in _classes_in(kind):
                _visit(part)


def _origin(made: type) -> tuple[str, str]:
    return made.__module__, made.__qualname__


def _is_abstract(made: type) -> bool:
    """A family of nodes has no schema, since it checks nothing when it is built."""
    family = issubclass(made, Node) and not hasattr(made, "__post_init__")
    return family or bool(getattr(made, "__abstractmethods__", None))


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
    for made in below:
        # A dataclass with slots replaces the class that it was made of.
        if getattr(sys.modules.get(made.__module__), made.__name__, made) is made:
            yield made
        yield from _subclasses(made)


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
