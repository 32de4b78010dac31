"""User-defined aggregates by their registered names, among the others of a SELECT.

    SELECT srcIP, count(*) AS n, finance.vwap(price, qty) AS vwap [RANGE ...] FROM ... GROUP BY
    srcIP

Arguments are the inputs of the module, in order or by name (`price => p`); any other name is an
initialisation parameter, whose value is a constant. A module makes its answers by itself; where a
SELECT has several, the answers of one group and window are joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from thalweg.expr import Column, Expr, Literal
from thalweg.sql.expressions import RowReader
from thalweg.stream import Stream, WindowedStream
from thalweg.udm import Module

__all__ = ["ModuleCall", "answer", "read_module", "united"]


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """A module with its inputs and its parameters."""

    module: Module
    inputs: tuple[Expr, ...]
    named: Mapping[str, Expr]
    params: Mapping[str, object]

    def __str__(self) -> str:
        arguments = [
            *map(str, self.inputs),
            *(f"{name} => {value}" for name, value in (*self.named.items(), *self.params.items())),
        ]
        return f"{self.module.label}({', '.join(arguments)})"


def read_module(rows: RowReader, module: Module, node: exp.Expr) -> ModuleCall:
    """A call of a module in a query."""
    inputs: list[Expr] = []
    named: dict[str, Expr] = {}
    params: dict[str, object] = {}
    for argument in node.expressions:
        if not isinstance(argument, exp.Kwarg):
            inputs.append(rows.convert(argument))
            continue
        name, value = argument.this.name, rows.convert(argument.expression)
        if module.inputs is None or name in dict(module.inputs):
            named[name] = value
        elif isinstance(value, Literal):
            params[name] = value.value
        else:
            rows.source.refuse_node(
                argument, f"{name} is a parameter of {module.name}: its value is a constant."
            )
    return ModuleCall(module, tuple(inputs), named, params)


def answer(windowed: WindowedStream, call: ModuleCall, name: str | None = None) -> Stream:
    """What a module makes of each window; `name` is the column of an aggregate."""
    inputs = tuple(
        str(argument) if isinstance(argument, Column) else argument for argument in call.inputs
    )
    return windowed.apply(
        call.module.label, *inputs, dict(call.named), params=call.params, name=name
    )


def united(parts: Sequence[Stream]) -> Stream:
    """The rows of all windows, from one stream for each size of window."""
    first, *others = parts
    return first.union(*others) if others else first
