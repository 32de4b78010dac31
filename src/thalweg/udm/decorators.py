"""How a Python function or class becomes a module: one decorator.

>>> from thalweg.udm.registry import Registry
>>> mine = Registry()
>>> @aggregate("my_average", inputs={"value": "double"}, output="double", registry=mine)
... def my_average(values):
...     "The mean of a column."
...     return sum(values) / len(values)
>>> mine.find("my_average").label, mine.find("my_average").doc
('my_average@1', 'The mean of a column.')

What is decorated stays what it was, and can be called and tested as before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from thalweg.errors import PlanError, require_choice
from thalweg.expr.user_calls import ON_ERROR, UserFunction
from thalweg.model.time import Duration, duration_us
from thalweg.model.type_names import TypeLike, arrow_type
from thalweg.udm.module import Kind, Module, OutputLike
from thalweg.udm.properties import Properties
from thalweg.udm.registry import DEFAULT, Registry

__all__ = ["Inputs", "aggregate", "function", "operator"]

T = TypeVar("T", bound=Callable[..., Any])
Inputs: TypeAlias = "Mapping[str, TypeLike] | None"

_METHODS = (
    "compute",
    "compute_groups",
    "empty",
    "add",
    "remove",
    "result",
    "merge",
    "save",
    "load",
    "partials",
    "merge_groups",
    "results",
)


class Computed:
    """A function in the place of a class with `compute`: initialisation parameters are its keyword
    arguments."""

    def __init__(self, function: Callable[..., Any], params: Mapping[str, Any]) -> None:
        self.compute = partial(function, **params) if params else function


class _Maker:
    """Makes `Computed`s of one function; a class of its own, so that it can be pickled. The first
    `inputs` arguments of the function are what it computes from."""

    def __init__(self, function: Callable[..., Any], inputs: int) -> None:
        self.function, self.inputs = function, inputs

    def __call__(self, **params: Any) -> Computed:
        # Raises TypeError for a parameter it does not have.
        inspect.signature(self.function).bind(*[None] * self.inputs, **params)
        return Computed(self.function, params)

    @property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(self.function)
        return signature.replace(parameters=list(signature.parameters.values())[self.inputs :])


def _decorator(
    kind: Kind,
    name: str,
    inputs: Inputs,
    output: OutputLike,
    takes: str | None,
    registry: Registry | None,
    options: dict[str, Any],
) -> Callable[[T], T]:
    facts = {key: options.pop(key) for key in Properties.__slots__ if key in options}
    if isinstance(facts.get("commutes_with_filter"), str):
        facts["commutes_with_filter"] = (facts["commutes_with_filter"],)

    def decorate(thing: T) -> T:
        is_class = inspect.isclass(thing)
        if not is_class and not callable(thing):
            raise PlanError(f"module {name!r}: decorate a class or a function; got {thing!r}.")
        methods = (
            frozenset(m for m in _METHODS if callable(getattr(thing, m, None)))
            if is_class
            else frozenset({"compute"})
        )
        input_count = 2 if options.get("time_sensitive") else 1
        module = Module(
            name,
            kind,
            thing if is_class else _Maker(thing, input_count),
            output,
            None if inputs is None else tuple(inputs.items()),
            takes=takes or ("values" if inputs is not None and len(inputs) == 1 else "rows"),
            properties=Properties(**facts),
            doc=inspect.getdoc(thing) or "",
            origin=(thing.__module__, thing.__qualname__),
            methods=methods,
            **options,
        )
        (DEFAULT if registry is None else registry).add(module)
        return thing

    return decorate


def aggregate(
    name: str,
    *,
    inputs: Inputs = None,
    output: OutputLike,
    takes: str | None = None,
    registry: Registry | None = None,
    **options: Any,
) -> Callable[[T], T]:
    """A user-defined aggregate: one value for each window.

    `inputs` are names and types; without them the module receives all columns of the stream.
    `output` is a type, or a function from the schema of the inputs to one. `takes` says how the
    input comes (`TAKES`). Options: `version`, `time_sensitive`, `nulls`, `clip`, and the
    properties.
    """
    return _decorator("aggregate", name, inputs, output, takes, registry, options)


def operator(
    name: str,
    *,
    inputs: Inputs = None,
    output: OutputLike,
    takes: str | None = None,
    registry: Registry | None = None,
    **options: Any,
) -> Callable[[T], T]:
    """A user-defined operator: any number of payloads, or of events, for each window. Options as
    for `aggregate`, and `stamp`."""
    return _decorator("operator", name, inputs, output, takes, registry, options)


def function(
    name: str,
    *,
    inputs: Mapping[str, TypeLike] | Sequence[TypeLike],
    output: TypeLike,
    vectorised: bool = False,
    nulls: bool = False,
    on_error: str = "fail",
    time_limit: Duration | None = None,
    version: str = "1",
    registry: Registry | None = None,
) -> Callable[[T], T]:
    """A user-defined function of values of one event, for any expression.

    `vectorised`: of Arrow arrays, one value for each row. `nulls`: it is called for nulls too;
    otherwise they give null. `on_error`: an event that it fails on, or on which it takes longer
    than `time_limit`, ends the query (`fail`) or gives null (`null`).
    """
    where = f"function {name!r}"
    require_choice(on_error, ON_ERROR, f"{where}: on_error")
    limit = None if time_limit is None else duration_us(time_limit, what="time_limit") / 1_000_000
    if limit is not None and limit <= 0:
        raise PlanError(f"{where}: the time limit must be positive; got {time_limit!r}.")
    kinds = inputs.values() if isinstance(inputs, Mapping) else inputs
    types = tuple(None if kind == "any" else arrow_type(kind, where) for kind in kinds)
    result: pa.DataType = arrow_type(output, where)

    def decorate(thing: T) -> T:
        user = UserFunction(
            name,
            version,
            thing,
            types,
            result,
            vectorised,
            inspect.getdoc(thing) or "",
            nulls,
            on_error,
            limit,
        )
        (DEFAULT if registry is None else registry).add_function(
            user, (thing.__module__, thing.__qualname__)
        )
        return thing

    return decorate
