"""The table of functions: name, how many arguments, the kernel.

A kernel takes Arrow arrays or scalars (a scalar stands for every row) and returns one of the two.
It works on whole columns, is free of side effects, and refuses types by `Refusal`. Engines other
than this one translate by the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from thalweg.errors import ExpressionError, did_you_mean
from thalweg.expr import _logic, _numbers, _texts
from thalweg.expr.kinds import Datum

__all__ = ["ALIASES", "FUNCTIONS", "Function", "find_function", "is_function"]


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    apply: Callable[..., Datum]
    least: int
    most: int | None
    """None: any number."""

    @property
    def arity(self) -> str:
        """How many arguments it takes, in words."""
        if self.most == self.least:
            return f"{self.least} argument" + ("s" if self.least != 1 else "")
        return (
            f"{self.least} or more arguments"
            if self.most is None
            else f"{self.least} to {self.most} arguments"
        )


def _table() -> dict[str, Function]:
    rows: list[tuple[str, Callable[..., Datum], int, int | None]] = [
        ("add", _numbers.add, 2, 2),
        ("subtract", _numbers.arithmetic("subtract_checked"), 2, 2),
        ("multiply", _numbers.arithmetic("multiply_checked"), 2, 2),
        ("divide", _numbers.divide, 2, 2),
        ("floor_div", _numbers.integer_division(np.floor_divide, overflows=True), 2, 2),
        ("mod", _numbers.integer_division(np.fmod, overflows=False), 2, 2),
        ("floor_mod", _numbers.integer_division(np.remainder, overflows=False), 2, 2),
        ("negate", _numbers.negate, 1, 1),
        ("eq", _logic.comparison("equal"), 2, 2),
        ("ne", _logic.comparison("not_equal"), 2, 2),
        ("lt", _logic.comparison("less"), 2, 2),
        ("le", _logic.comparison("less_equal"), 2, 2),
        ("gt", _logic.comparison("greater"), 2, 2),
        ("ge", _logic.comparison("greater_equal"), 2, 2),
        ("and", _logic.connective("and_kleene"), 2, 2),
        ("or", _logic.connective("or_kleene"), 2, 2),
        ("not", _logic.not_, 1, 1),
        ("in", _logic.is_in, 2, 2),
        ("is_null", _logic.is_null, 1, 1),
        ("is_not_null", _logic.is_not_null, 1, 1),
        ("coalesce", _logic.coalesce, 1, None),
        ("nullif", _logic.nullif, 2, 2),
        ("abs", _numbers.absolute, 1, 1),
        ("round", _numbers.round_, 1, 2),
        ("floor", _numbers.floor, 1, 1),
        ("ceil", _numbers.ceil, 1, 1),
        ("sqrt", _numbers.sqrt, 1, 1),
        ("ln", _numbers.ln, 1, 1),
        ("exp", _numbers.exp, 1, 1),
        ("power", _numbers.power, 2, 2),
        ("sign", _numbers.sign, 1, 1),
        ("least", _numbers.extreme("min_element_wise"), 1, None),
        ("greatest", _numbers.extreme("max_element_wise"), 1, None),
        ("lower", _texts.lower, 1, 1),
        ("upper", _texts.upper, 1, 1),
        ("length", _texts.length, 1, 1),
        ("trim", _texts.trim, 1, 2),
        ("substring", _texts.substring, 2, 3),
        ("char_at", _texts.char_at, 2, 2),
        ("concat", _texts.concat, 1, None),
        ("replace", _texts.replace, 3, 3),
        ("like", _texts.like, 2, 2),
        ("starts_with", _texts.matcher("starts_with"), 2, 2),
        ("ends_with", _texts.matcher("ends_with"), 2, 2),
        ("contains", _texts.matcher("match_substring"), 2, 2),
    ]
    return {name: Function(name, apply, least, most) for name, apply, least, most in rows}


FUNCTIONS: dict[str, Function] = _table()

ALIASES = {"substr": "substring", "if_null": "coalesce", "ceiling": "ceil", "pow": "power"}
"""Other names for functions, understood in text and by `call`; an expression holds the name of the
table."""


def is_function(name: str) -> bool:
    """Whether the table has it."""
    return ALIASES.get(name, name) in FUNCTIONS


def find_function(name: str, arguments: int) -> Function:
    """The function of this name, for so many arguments.

    >>> find_function("substr", 3).name
    'substring'
    >>> find_function("lenght", 1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    thalweg.errors.ExpressionError: unknown function 'lenght'. Did you mean 'length'?
    ...
    """
    function = FUNCTIONS.get(ALIASES.get(name, name))
    if function is None:
        raise ExpressionError(
            f"unknown function {name!r}{did_you_mean(name, [*FUNCTIONS, *ALIASES])}"
        )
    if arguments < function.least or (function.most is not None and arguments > function.most):
        raise ExpressionError(f"{name} takes {function.arity}; got {arguments}.")
    return function
