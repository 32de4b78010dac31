"""From what a query writer says about a module to a node: the module by its name, its inputs by
position or by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from thalweg.errors import PlanError, UnknownColumnError, did_you_mean
from thalweg.expr import Column, ExprLike, as_expr
from thalweg.model.time import Duration, duration_us
from thalweg.plan.nodes import Named, Node, WidApply, WindowApply
from thalweg.plan.nodes.wid import ARRIVED_AT, ROW_NUMBER
from thalweg.udm import DEFAULT
from thalweg.udm.module import Module
from thalweg.windows import Window, WindowKind

__all__ = ["ModuleLike", "ModuleUse", "apply_node", "find_module", "module"]


ModuleLike: TypeAlias = "str | Callable[..., Any]"
"""A module by its name, or the function or class that was registered."""


def find_module(module: ModuleLike) -> Module:
    """The module of a name, or the one that a function or class was registered as."""
    if isinstance(module, str):
        return DEFAULT.find(module)
    origin = (getattr(module, "__module__", None), getattr(module, "__qualname__", None))
    for entry in DEFAULT.all():
        if isinstance(entry, Module) and entry.origin == origin:
            return DEFAULT.find(entry.label)
    raise PlanError(
        f"{module!r} is no module: put @udm.aggregate(name, inputs=..., output=...) or "
        "@udm.operator in front of it, or give the name of one."
    )


@dataclass(frozen=True, slots=True)
class ModuleUse:
    """A user's aggregate among others: which, of what, with which parameters."""

    module: ModuleLike
    columns: tuple[ExprLike, ...] = ()
    named: Mapping[str, ExprLike] = field(default_factory=dict)
    params: Mapping[str, Any] | None = None


def module(
    name: ModuleLike,
    /,
    *columns: ExprLike,
    params: Mapping[str, Any] | None = None,
    **named: ExprLike,
) -> ModuleUse:
    """A user's aggregate, to stand beside others: `aggregate(n=count(), v=module(vwap, "price",
    "qty"))`. `name` is the one it was registered under, or the function or class itself."""
    found = find_module(name)
    if found.kind != "aggregate":
        raise PlanError(
            f"module: {found.name} is an operator, with any number of rows for a window; use "
            f"apply({found.name!r}, ...)."
        )
    return ModuleUse(name, columns, named, params)


def apply_node(
    node: Node,
    window: Window | WindowKind,
    keys: tuple[str, ...],
    name: ModuleLike,
    columns: Sequence[ExprLike],
    named: Mapping[str, ExprLike],
    params: Mapping[str, Any] | None,
    clip: str | None,
    stamp: str | None,
    on_error: str,
    time_limit: Duration | None,
    output: str | None,
    partition: tuple[str, ...] = (),
    wid: str | None = None,
) -> WindowApply | WidApply:
    """The node for `window.apply(name, ...)`."""
    module = find_module(name)
    limit = None if time_limit is None else duration_us(time_limit, what="time_limit") / 1_000_000
    parameters = tuple(sorted((params or {}).items()))
    if isinstance(window, WindowKind):
        groups = (*partition, *(key for key in keys if key not in partition))
        if clip not in (None, "none"):
            raise PlanError(
                f"apply({module.name!r}): rows belong to {window} by their starts, as events of one"
                " tick; leave clip= out."
            )
        return WidApply(
            node,
            window,
            module,
            _arguments(module, node, groups, columns, named),
            parameters,
            keys,
            partition,
            wid,
            module.stamp if stamp is None else stamp,
            on_error,
            limit,
            output,
        )
    return WindowApply(
        node,
        window,
        module,
        _arguments(module, node, keys, columns, named),
        parameters,
        keys,
        module.clip if clip is None else clip,
        module.stamp if stamp is None else stamp,
        on_error,
        limit,
        output,
    )


def _arguments(
    module: Module,
    node: Node,
    keys: tuple[str, ...],
    columns: Sequence[ExprLike],
    named: Mapping[str, ExprLike],
) -> Named:
    where = f"apply({module.name!r})"
    if module.inputs is None:
        if columns and not all(
            isinstance(column, str) and column in node.schema.names for column in columns
        ):
            raise PlanError(
                f"{where}: it takes columns as they are; name columns of the stream, or name what "
                "is computed (x='a + b')."
            )
        plain = [str(column) for column in columns]
        chosen = plain or (
            []
            if named
            else [
                column
                for column in node.schema.names
                if column not in (*keys, ROW_NUMBER, ARRIVED_AT)
            ]
        )
        return (
            *((column, Column(column)) for column in chosen),
            *((input_name, as_expr(expr)) for input_name, expr in named.items()),
        )
    input_names = [input_name for input_name, _ in module.inputs]
    if len(columns) > len(input_names):
        raise PlanError(
            f"{where}: it takes {len(input_names)} inputs ({', '.join(input_names)}); got "
            f"{len(columns)}."
        )
    found = dict(zip(input_names, columns, strict=False))
    for input_name, expr in named.items():
        if input_name not in input_names:
            raise PlanError(
                f"{where}: no input {input_name!r}{did_you_mean(input_name, input_names)} "
                f"It takes {', '.join(input_names)}; parameters go into params=."
            )
        if input_name in found:
            raise PlanError(f"{where}: the input {input_name!r} is given twice.")
        found[input_name] = expr
    for missing in [input_name for input_name in input_names if input_name not in found]:
        if missing not in node.schema.names:
            raise UnknownColumnError(
                missing, node.schema.names, f"{where}: say which column is its input {missing!r}"
            )
        found[missing] = Column(missing)
    return tuple((input_name, as_expr(found[input_name])) for input_name in input_names)
