"""Plans as JSON: what a query is, in a form that another process can read, and no code.

    {"format": "thalweg plan", "version": 1, "nodes": [...], "root": 3}

`nodes` lists every node once, inputs first; a node that another reads is named by its place,
`{"node": 0}`. A node, an expression, a window, an aggregate, a pattern or a policy is an object
with the name of its class, the version of that class and one entry for each field:

    {"class": "Where", "version": 1, "input": {"node": 0}, "predicate": {"class": "Call", ...}}

Nothing here is written for one class: the entries are the fields of the frozen dataclass and their
types (see `written_classes`), so that a new node is written without another word, or refused by
name. What a user defined travels by its registered name, `{"module": "std.median@1"}`, with a
digest of its code; whoever reads the plan must have the same. Where rows come from (`feed`) is no
part of the plan. Reading calls constructors of known classes and nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeAlias

import pyarrow as pa

from thalweg.aggregates import Aggregate
from thalweg.errors import PlanError, ThalwegError, did_you_mean
from thalweg.expr.user_calls import UserFunction
from thalweg.model.packed_values import pack_values, unpack_values
from thalweg.plan.nodes import Node, walk
from thalweg.plan.written_classes import (
    ABSENT,
    class_version,
    field_types,
    find_class,
    fits,
    known_classes,
    written_name,
)
from thalweg.plan.written_types import read_schema, read_type, write_schema, write_type
from thalweg.udm.digest import code_digest
from thalweg.udm.module import Module
from thalweg.udm.registry import DEFAULT

__all__ = ["PLAN_FORMAT", "Given", "read_plan", "write_plan"]

PLAN_FORMAT = 1
_NAME = "thalweg plan"

Given: TypeAlias = Iterable[Module | UserFunction]
"""Modules and functions that the registry of this process does not have."""


def write_plan(root: Node) -> dict[str, Any]:
    """The plan as something that JSON can write.

    >>> import thalweg as tw
    >>> plan = write_plan(tw.source("s", {"v": "int64"}).where("v > 1").node)
    >>> [node["class"] for node in plan["nodes"]], plan["root"]
    (['Source', 'Where'], 1)
    >>> read_plan(plan).details
    'v > 1'
    """
    writer = _Writer()
    for node in walk(root):
        writer.node(node)
    place = writer.node(root)
    return {"format": _NAME, "version": PLAN_FORMAT, "nodes": writer.nodes, "root": place["node"]}


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self._places: dict[Node, int] = {}

    def node(self, node: Node) -> dict[str, Any]:
        if node not in self._places:
            written = self._fields(node, node.label)
            self._places[node] = len(self.nodes)
            self.nodes.append(written)
        return {"node": self._places[node]}

    def _fields(self, value: Any, place: str) -> dict[str, Any]:
        name = written_name(type(value), place)
        written = {"class": name, "version": class_version(type(value))}
        for entry in fields(value):
            if entry.init and entry.name not in ABSENT:
                where = f"{place}.{entry.name}"
                written[entry.name] = self.value(getattr(value, entry.name), where)
        return written

    def value(self, value: Any, place: str) -> Any:
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": repr(value)}
            case Node():
                return self.node(value)
            case tuple():
                return [self.value(item, f"{place}[{at}]") for at, item in enumerate(value)]
            case pa.Schema():
                return {"schema": write_schema(value)}
            case pa.DataType():
                return {"type": write_type(value)}
            case Module():
                return {"module": value.label, "digest": code_digest(value.make)}
            case UserFunction():
                return {"function": value.label, "digest": code_digest(value.run)}
            case Aggregate():
                parameters = self.value(value.parameters, f"{place}.parameters")
                return {"class": written_name(type(value), place), "parameters": parameters}
        if hasattr(type(value), "__dataclass_fields__"):
            return self._fields(value, place)
        try:
            return {"value": pack_values([value])}
        except (pa.ArrowException, TypeError, ValueError):
            raise PlanError(
                f"{place}: a {type(value).__name__} cannot be written in a plan; give a value that "
                "Arrow has a type for."
            ) from None


def read_plan(plan: object, given: Given = ()) -> Node:
    """The inverse of `write_plan`; text that is no plan is refused with the place of the fault.

    `given` are modules and functions that are not registered in this process.
    """
    if not isinstance(plan, Mapping) or plan.get("format") != _NAME:
        raise PlanError("this is no plan: it does not say that its format is 'thalweg plan'.")
    if plan.get("version") != PLAN_FORMAT:
        raise PlanError(
            f"the plan has format version {plan.get('version')!r}; this version reads "
            f"{PLAN_FORMAT}."
        )
    listed = plan.get("nodes")
    if not isinstance(listed, list):
        raise PlanError("the plan has no list of nodes.")
    reader = _Reader(given)
    for at, written in enumerate(listed):
        reader.nodes.append(reader.node(written, f"nodes[{at}]"))
    return reader.reference(plan.get("root"), "root")


class _Reader:
    def __init__(self, modules: Given) -> None:
        self.nodes: list[Node] = []
        self._modules = {entry.label: entry for entry in modules}

    def node(self, written: Any, place: str) -> Node:
        node = self.value(written, place)
        if not isinstance(node, Node):
            raise PlanError(f"{place}: this is no node but {_shown(written)}.")
        return node

    def reference(self, at: Any, place: str) -> Node:
        if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at < len(self.nodes):
            raise PlanError(
                f"{place}: there is no node {_shown(at)} before this place; a plan lists inputs "
                "first."
            )
        return self.nodes[at]

    def value(self, written: Any, place: str) -> Any:
        if isinstance(written, list):
            return tuple(self.value(item, f"{place}[{at}]") for at, item in enumerate(written))
        if not isinstance(written, dict):
            return written
        if "class" in written:
            return self._made(written, place)
        match written:
            case {"node": at}:
                return self.reference(at, place)
            case {"module": str(label)} | {"function": str(label)}:
                return self._users(label, written, place)
        try:
            match written:
                case {"float": str(text)}:
                    return float(text)
                case {"schema": columns}:
                    return read_schema(columns)
                case {"type": kind}:
                    return read_type(kind)
                case {"value": packed}:
                    return unpack_values(packed)[0]
        except (pa.ArrowException, ValueError, TypeError, KeyError, IndexError) as reason:
            raise PlanError(f"{place}: {_shown(written)} cannot be read: {reason}.") from reason
        raise PlanError(f"{place}: nothing in a plan looks like {_shown(written)}.")

    def _made(self, written: dict[str, Any], place: str) -> Any:
        name = written["class"]
        class_ = find_class(name)
        if class_ is None:
            raise PlanError(
                f"{place}: unknown class {_shown(name)}{did_you_mean(str(name), known_classes())} A"
                " plan holds nodes, expressions, windows, aggregates and policies that this "
                "process knows."
            )
        if issubclass(class_, Aggregate):
            parameters = self.value(written.get("parameters", []), f"{place}.parameters")
            return _constructed(class_, parameters, {}, place)
        version = written.get("version")
        if version != class_version(class_):
            raise PlanError(
                f"{place}: {name} has version {_shown(version)}; this version of the system reads "
                f"{class_version(class_)}."
            )
        types = field_types(class_)
        fields = {key: item for key, item in written.items() if key not in ("class", "version")}
        for key in fields:
            if key not in types:
                raise PlanError(f"{place}: {name} has no field {key!r}{did_you_mean(key, types)}")
        missing = [key for key in types if key not in fields]
        if missing:
            raise PlanError(f"{place}: {name} lacks the field {missing[0]!r}.")
        values = {key: self.value(item, f"{place}.{key}") for key, item in fields.items()}
        for key, value in values.items():
            if not fits(value, types[key]):
                raise PlanError(
                    f"{place}.{key}: {_shown(fields[key])} is no value for this field of {name}."
                )
        return _constructed(class_, (), values, place)

    def _users(self, label: str, written: dict[str, Any], place: str) -> Module | UserFunction:
        """A module or function by its name and version, if its code is the same."""
        found = self._modules.get(label)
        if found is None:
            try:
                entry = DEFAULT.find_function(label) if "function" in written else None
                found = entry or DEFAULT.find(label)
            except PlanError as reason:
                raise PlanError(
                    f"{place}: this process does not know {label!r} ({reason.reason.rstrip('.')}). "
                    "Import what defines it, or give it again."
                ) from reason
        digest = code_digest(found.make if isinstance(found, Module) else found.run)
        if written.get("digest") != digest:
            raise PlanError(
                f"{place}: the code of {label!r} is not the one that the plan was written with; "
                "give it another version=."
            )
        return found


def _constructed(
    class_: type, arguments: tuple[Any, ...], values: Mapping[str, Any], place: str
) -> Any:
    try:
        return class_(*arguments, **values)
    except ThalwegError as reason:
        raise PlanError(f"{place}: {getattr(reason, 'reason', reason)}") from reason
    except (
        TypeError,
        ValueError,
        AttributeError,
        KeyError,
        IndexError,
        pa.ArrowException,
    ) as reason:
        raise PlanError(f"{place}: {class_.__name__} cannot be made: {reason}.") from reason


def _shown(value: Any) -> str:
    text = json.dumps(value, default=lambda item: type(item).__name__)
    return text if len(text) <= 80 else text[:77] + "..."
