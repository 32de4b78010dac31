"""The table of functions: name, how many arguments, the kernel.

A kernel takes Arrow arrays or scalars (a scalar stands for every row) and returns one of the two.
It works on whole columns, is free of side effects, and refuses types by `Refusal`. Engines other
than this one translate by the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from thalweg.errors import ExpressionError, did_you_mean
from thalweg.expr import _logic, _nested, _numbers, _text_patterns, _texts, _time_formats, _times
from thalweg.expr.kinds import Datum

__all__ = [
    "AGGREGATE_NAMES",
    "ALIASES",
    "CHANGING",
    "FUNCTIONS",
    "TOPICS",
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
    is_total: bool = False
    """Whether it has an answer for every row: no overflow, no division, no parsing."""

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


TOPICS: Mapping[str, tuple[Function, ...]] = {
    "Conditions and nulls": (
        Function("eq", _logic.comparison("equal"), 2, 2, is_total=True),
        Function("ne", _logic.comparison("not_equal"), 2, 2, is_total=True),
        Function("lt", _logic.comparison("less"), 2, 2, is_total=True),
        Function("le", _logic.comparison("less_equal"), 2, 2, is_total=True),
        Function("gt", _logic.comparison("greater"), 2, 2, is_total=True),
        Function("ge", _logic.comparison("greater_equal"), 2, 2, is_total=True),
        Function("and", _logic.connective("and_kleene"), 2, 2, is_total=True),
        Function("or", _logic.connective("or_kleene"), 2, 2, is_total=True),
        Function("not", _logic.not_, 1, 1, is_total=True),
        Function("in", _logic.is_in, 2, 2, is_total=True),
        Function("is_null", _logic.is_null, 1, 1, is_total=True),
        Function("is_not_null", _logic.is_not_null, 1, 1, is_total=True),
        Function("coalesce", _logic.coalesce, 1, None, is_total=True),
        Function("nullif", _logic.nullif, 2, 2, is_total=True),
        Function("is_distinct", _logic.is_distinct, 2, 2),
    ),
    "Numbers": (
        Function("add", _numbers.add, 2, 2),
        Function("subtract", _numbers.subtract, 2, 2),
        Function("multiply", _numbers.arithmetic("multiply_checked"), 2, 2),
        Function("divide", _numbers.divide, 2, 2),
        Function("floor_div", _numbers.integer_division(np.floor_divide, overflows=True), 2, 2),
        Function("mod", _numbers.integer_division(np.fmod, overflows=False), 2, 2),
        Function("floor_mod", _numbers.integer_division(np.remainder, overflows=False), 2, 2),
        Function("negate", _numbers.negate, 1, 1),
        Function("abs", _numbers.absolute, 1, 1),
        Function("round", _numbers.round_, 1, 2),
        Function("floor", _numbers.floor, 1, 1),
        Function("ceil", _numbers.ceil, 1, 1),
        Function("sqrt", _numbers.sqrt, 1, 1),
        Function("ln", _numbers.ln, 1, 1),
        Function("exp", _numbers.exp, 1, 1),
        Function("power", _numbers.power, 2, 2),
        Function("sign", _numbers.sign, 1, 1),
        Function("least", _numbers.extreme("min_element_wise"), 1, None),
        Function("greatest", _numbers.extreme("max_element_wise"), 1, None),
        Function("log10", _numbers.within_domain("log10"), 1, 1),
        Function("log2", _numbers.within_domain("log2"), 1, 1),
        Function("log", _numbers.log, 1, 2),
        *(Function(name, _numbers.within_domain(name), 1, 1) for name in _TRIGONOMETRY),
        Function("atan2", _numbers.within_domain("atan2"), 2, 2),
    ),
    "Text": (
        Function("lower", _texts.lower, 1, 1, is_total=True),
        Function("upper", _texts.upper, 1, 1, is_total=True),
        Function("length", _texts.length, 1, 1, is_total=True),
        Function("trim", _texts.trim, 1, 2),
        Function("substring", _texts.substring, 2, 3),
        Function("char_at", _texts.char_at, 2, 2),
        Function("concat", _texts.concat, 1, None),
        Function("replace", _texts.replace, 3, 3),
        Function("like", _text_patterns.like, 2, 2),
        Function("starts_with", _text_patterns.matcher("starts_with"), 2, 2, is_total=True),
        Function("ends_with", _text_patterns.matcher("ends_with"), 2, 2, is_total=True),
        Function("contains", _text_patterns.matcher("match_substring"), 2, 2, is_total=True),
        Function("ilike", _text_patterns.ilike, 2, 2),
        Function("regexp_like", _text_patterns.regexp_like, 2, 2),
        Function("regexp_replace", _text_patterns.regexp_replace, 3, 3),
        Function("regexp_extract", _text_patterns.regexp_extract, 2, 3),
        Function("ltrim", _texts.trimmer("utf8_ltrim"), 1, 2),
        Function("rtrim", _texts.trimmer("utf8_rtrim"), 1, 2),
        Function("lpad", _texts.padded("utf8_lpad"), 2, 3),
        Function("rpad", _texts.padded("utf8_rpad"), 2, 3),
        Function("left", _texts.left, 2, 2),
        Function("right", _texts.right, 2, 2),
        Function("reverse", _texts.reverse, 1, 1),
        Function("repeat", _texts.repeat, 2, 2),
        Function("initcap", _texts.initcap, 1, 1),
        Function("concat_ws", _texts.concat_ws, 2, None),
        Function("position", _text_patterns.position, 2, 2),
        Function("split", _texts.split, 2, 2),
        Function("split_part", _texts.split_part, 3, 3),
    ),
    "Times": (
        *(Function(name, _times.part(name), 1, 1) for name in _PARTS),
        Function("date_trunc", _times.date_trunc, 2, 2),
        Function("extract", _times.extract, 2, 2),
        Function("unix_timestamp", _times.unix_timestamp, 1, 1),
        Function("add_months", _times.add_months, 2, 2),
        Function("timestampadd", _times.timestampadd, 3, 3),
        Function("timestampdiff", _times.timestampdiff, 3, 3),
        Function("datediff", _times.datediff, 2, 2),
        Function("date_format", _time_formats.date_format, 2, 2),
        Function("strftime", _time_formats.strftime, 2, 2),
        Function("to_timestamp", _time_formats.to_timestamp, 1, 2),
        Function("to_date", _time_formats.to_date, 1, 2),
        Function("at_time_zone", _times.at_time_zone, 2, 2),
    ),
    "Structs, lists, maps": (
        Function("field", _nested.field, 2, 2),
        Function("element_at", _nested.element, 2, 2),
        Function("cardinality", _nested.cardinality, 1, 1),
        Function("array_contains", _nested.array_contains, 2, 2),
    ),
}
"""The functions, as the documentation groups them."""

FUNCTIONS: Mapping[str, Function] = {
    function.name: function for functions in TOPICS.values() for function in functions
}

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
