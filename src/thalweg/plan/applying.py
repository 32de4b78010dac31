"""From what a query writer says about a module to a node: the module by its name, its inputs by
position or by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from thalweg.errors import PlanError, UnknownColumnError, did_you_mean
from thalweg.expr import Column, ExprLike, as_expr
from thalweg.model.time import Duration, duration_us
from thalweg.plan.expressions import unchanged
from thalweg.plan.nodes import Named, Node, WidApply, WindowApply
from thalweg.plan.nodes.wid import ARRIVED_AT, ROW_NUMBER
from thalweg.udm import DEFAULT
from thalweg.udm.module import Module
from thalweg.windows import Window, WindowKind

__all__ = ["Handling", "ModuleLike", "ModuleUse", "apply_node", "find_module", "module"]


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
    """A module in a query: which, of what, with which parameters."""

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
    if not found.is_aggregate:
        raise PlanError(
            f"module: {found.name} is an operator, with any number of rows for a window; use "
            f"apply({found.name!r}, ...)."
        )
    return ModuleUse(name, columns, named, params)


@dataclass(frozen=True, slots=True)
class Handling:
    """How a query lets a module run; None: as the module says."""

    clip: str | None = None
    stamp: str | None = None
    on_error: str = "fail"
    time_limit: Duration | None = None
    """How long one call may take."""
    name: str | None = None
    """What the value of an aggregate is called."""


def apply_node(
    node: Node,
    window: Window | WindowKind,
    keys: tuple[str, ...],
    use: ModuleUse,
    handling: Handling,
    *,
    partition: tuple[str, ...] = (),
    wid: str | None = None,
) -> WindowApply | WidApply:
    """The node for `window.apply(name, ...)`."""
    module = find_module(use.module)
    limit = handling.time_limit
    seconds = None if limit is None else duration_us(limit, what="time_limit") / 1_000_000
    params = tuple(sorted((use.params or {}).items()))
    stamp = module.stamp if handling.stamp is None else handling.stamp
    if isinstance(window, WindowKind):
        if handling.clip not in (None, "none"):
            raise PlanError(
                f"apply({module.name!r}): rows belong to {window} by their starts, as events of one"
                " tick; leave clip= out."
            )
        groups = (*partition, *(key for key in keys if key not in partition))
        return WidApply(
            node,
            window,
            module,
            _arguments(module, node, groups, use),
            params,
            keys,
            partition,
            wid,
            stamp,
            handling.on_error,
            seconds,
            handling.name,
        )
    return WindowApply(
        node,
        window,
        module,
        _arguments(module, node, keys, use),
        params,
        keys,
        module.clip if handling.clip is None else handling.clip,
        stamp,
        handling.on_error,
        seconds,
        handling.name,
    )


def _arguments(module: Module, node: Node, keys: tuple[str, ...], use: ModuleUse) -> Named:
    """The module's inputs as expressions over the rows of a node."""
    where = f"apply({module.name!r})"
    if module.inputs is None:
        return _any_inputs(where, node, keys, use)
    return _declared_inputs(where, [name for name, _ in module.inputs], node, use)


def _any_inputs(where: str, node: Node, keys: tuple[str, ...], use: ModuleUse) -> Named:
    """The inputs of a module that takes any columns: those that are named, else all of the rows'
    own."""
    names = node.schema.names
    if not all(isinstance(column, str) and column in names for column in use.columns):
        raise PlanError(
            f"{where}: it takes columns as they are; name columns of the stream, or name what "
            "is computed (x='a + b')."
        )
    chosen = [str(column) for column in use.columns]
    if not chosen and not use.named:
        chosen = [name for name in names if name not in (*keys, ROW_NUMBER, ARRIVED_AT)]
    return (
        *unchanged(chosen),
        *((input_name, as_expr(expr)) for input_name, expr in use.named.items()),
    )


def _declared_inputs(where: str, input_names: list[str], node: Node, use: ModuleUse) -> Named:
    """The inputs of a module that declares them: by position, by name, or the columns that are
    called like them."""
    if len(use.columns) > len(input_names):
        raise PlanError(
            f"{where}: it takes {len(input_names)} inputs ({', '.join(input_names)}); got "
            f"{len(use.columns)}."
        )
    found = dict(zip(input_names, use.columns, strict=False))
    for input_name, expr in use.named.items():
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
