"""The table of functions: name, how many arguments, the kernel.

A kernel takes Arrow arrays or scalars (a scalar stands for every row) and returns one of the two.
It works on whole columns, is free of side effects, and refuses types by `Refusal`. Engines other
than this one translate by the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from thalweg.errors import ExpressionError, did_you_mean
from thalweg.expr import _logic, _nested, _numbers, _texts, _times
from thalweg.expr.kinds import Datum

__all__ = [
    "AGGREGATE_NAMES",
    "ALIASES",
    "CHANGING",
    "FUNCTIONS",
    "Function",
    "find_function",
    "is_function",
    "unknown_function",
]


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


_PARTS = (
    "year", "quarter", "month", "week", "day", "dayofweek", "dayofyear", "hour", "minute", "second",
)  # fmt: skip
_TRIGONOMETRY = ("sin", "cos", "tan", "asin", "acos", "atan")


def _table() -> dict[str, Function]:
    rows: list[tuple[str, Callable[..., Datum], int, int | None]] = [
        ("add", _numbers.add, 2, 2),
        ("subtract", _numbers.subtract, 2, 2),
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
        ("ilike", _texts.ilike, 2, 2),
        ("regexp_like", _texts.regexp_like, 2, 2),
        ("regexp_replace", _texts.regexp_replace, 3, 3),
        ("regexp_extract", _texts.regexp_extract, 2, 3),
        ("ltrim", _texts.trimmer("utf8_ltrim"), 1, 2),
        ("rtrim", _texts.trimmer("utf8_rtrim"), 1, 2),
        ("lpad", _texts.padded("utf8_lpad"), 2, 3),
        ("rpad", _texts.padded("utf8_rpad"), 2, 3),
        ("left", _texts.left, 2, 2),
        ("right", _texts.right, 2, 2),
        ("reverse", _texts.reverse, 1, 1),
        ("repeat", _texts.repeat, 2, 2),
        ("initcap", _texts.initcap, 1, 1),
        ("concat_ws", _texts.concat_ws, 2, None),
        ("position", _texts.position, 2, 2),
        ("split", _texts.split, 2, 2),
        ("split_part", _texts.split_part, 3, 3),
        ("log10", _numbers.within_domain("log10"), 1, 1),
        ("log2", _numbers.within_domain("log2"), 1, 1),
        ("log", _numbers.log, 1, 2),
        *((name, _numbers.within_domain(name), 1, 1) for name in _TRIGONOMETRY),
        ("atan2", _numbers.within_domain("atan2"), 2, 2),
        ("is_distinct", _logic.is_distinct, 2, 2),
        *((name, _times.part(name), 1, 1) for name in _PARTS),
        ("date_trunc", _times.date_trunc, 2, 2),
        ("extract", _times.extract, 2, 2),
        ("unix_timestamp", _times.unix_timestamp, 1, 1),
        ("add_months", _times.add_months, 2, 2),
        ("timestampadd", _times.timestampadd, 3, 3),
        ("timestampdiff", _times.timestampdiff, 3, 3),
        ("datediff", _times.datediff, 2, 2),
        ("date_format", _times.date_format, 2, 2),
        ("strftime", _times.strftime, 2, 2),
        ("to_timestamp", _times.to_timestamp, 1, 2),
        ("to_date", _times.to_date, 1, 2),
        ("at_time_zone", _times.at_time_zone, 2, 2),
        ("field", _nested.field, 2, 2),
        ("element_at", _nested.element, 2, 2),
        ("cardinality", _nested.cardinality, 1, 1),
        ("array_contains", _nested.array_contains, 2, 2),
    ]
    return {name: Function(name, apply, least, most) for name, apply, least, most in rows}


FUNCTIONS: dict[str, Function] = _table()

ALIASES = {
    "substr": "substring",
    "if_null": "coalesce",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "ceiling": "ceil",
    "pow": "power",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "ucase": "upper",
    "lcase": "lower",
    "startswith": "starts_with",
    "endswith": "ends_with",
    "rlike": "regexp_like",
    "regexp_matches": "regexp_like",
    "size": "cardinality",
    "array_length": "cardinality",
    "list_contains": "array_contains",
    "dayofmonth": "day",
    "weekofyear": "week",
    "epoch": "unix_timestamp",
}
"""Other names for functions, understood in text and by `call`; an expression holds the name of the
table."""


CHANGING = frozenset(
    {"now", "current_timestamp", "current_date", "current_time", "localtimestamp", "rand", "random",
     "uuid"}
)  # fmt: skip
"""Functions of SQL that this table leaves out on purpose: they give another value when they are
computed again, and an answer that is taken back has to be the one that was given."""

AGGREGATE_NAMES = frozenset(
    {"approx_percentile", "arg_max", "arg_min", "avg", "count", "first", "first_value",
     "heavy_hitters", "last", "last_value", "max", "max_by", "mean", "median", "min", "min_by",
     "percentile", "percentile_cont", "percentile_disc", "stddev", "stddev_samp", "sum",
     "var_samp", "variance"}
)  # fmt: skip
"""The built-in aggregates, to distinguish them from misspelt functions."""

_AGGREGATES_ELSEWHERE = frozenset(
    {"any_value", "approx_count_distinct", "approx_quantile", "array_agg", "bit_and", "bit_or",
     "bool_and", "bool_or", "collect_list", "collect_set", "corr", "count_distinct", "count_if",
     "covar_pop", "covar_samp", "every", "group_concat", "histogram", "json_agg", "kurtosis",
     "list", "listagg", "product", "quantile", "regr_slope", "skewness", "stddev_pop",
     "string_agg", "sum_distinct", "var_pop"}
)  # fmt: skip
"""Aggregates of other engines that there are not here."""


def unknown_function(name: str, others: Iterable[str] = ()) -> str:
    """Why there is no such function, and which are near."""
    if name.lower() in AGGREGATE_NAMES:
        return (
            f"{name} is an aggregate, and an expression here is about one row; aggregate over a "
            "window, with .aggregate(...) or in SELECT."
        )
    if name.lower() in _AGGREGATES_ELSEWHERE:
        return (
            f"there is no aggregate {name!r}. Write one with thalweg.udm.aggregate and call it by "
            "its name, or use count, sum, avg, min, max, first, last, median, percentile or stddev."
        )
    if name.lower() in CHANGING:
        return (
            f"{name} gives another value whenever it is computed, so an answer could not be taken "
            "back; use the time of the row, or give the value as a constant."
        )
    return f"unknown function {name!r}{did_you_mean(name.lower(), [*FUNCTIONS, *ALIASES, *others])}"


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
        raise ExpressionError(unknown_function(name))
    if arguments < function.least or (function.most is not None and arguments > function.most):
        raise ExpressionError(f"{name} takes {function.arity}; got {arguments}.")
    return function
