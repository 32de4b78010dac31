"""Random well-typed expressions, and random rows for them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from thalweg.expr import Call, Case, Cast, Column, Expr, Literal

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("odd name", pa.int64()),
        ("l.x", pa.float64()),
        ("y", pa.float64()),
        ("s", pa.string()),
        ('t"', pa.string()),
        ("p", pa.bool_()),
        ("end", pa.bool_()),
    ]
)

INTS = st.one_of(
    st.integers(-4, 4),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1]),
)
FLOATS = st.one_of(st.sampled_from([0.0, -0.0, 0.5, -1.5, 3.0]), st.floats(-1e6, 1e6))
TEXTS = st.text(alphabet="abAB é日\n'\"%_\\0", max_size=6)
BOOLS = st.booleans()
_VALUES = {"number": INTS, "double": FLOATS, "text": TEXTS, "condition": BOOLS}
_COLUMNS = {
    "number": ("i", "odd name"),
    "double": ("l.x", "y"),
    "text": ("s", 't"'),
    "condition": ("p", "end"),
}
_TYPES = {
    "number": pa.int64(),
    "double": pa.float64(),
    "text": pa.string(),
    "condition": pa.bool_(),
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@st.composite
def batches(draw: st.DrawFn, max_size: int = 8) -> pa.RecordBatch:
    size = draw(st.integers(0, max_size))
    columns = []
    for kind, names in _COLUMNS.items():
        for _ in names:
            values = draw(st.lists(st.none() | _VALUES[kind], min_size=size, max_size=size))
            columns.append(pa.array(values, _TYPES[kind]))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def literals(kind: str) -> st.SearchStrategy[Expr]:
    return _VALUES[kind].map(Literal)


def _leaves(kind: str) -> st.SearchStrategy[Expr]:
    return st.one_of(st.sampled_from([Column(name) for name in _COLUMNS[kind]]), literals(kind))


def expressions(kind: str, depth: int = 3) -> st.SearchStrategy[Expr]:
    """Expressions of a kind, at most so deep."""
    if depth <= 1:
        return _leaves(kind)

    def later(of: str) -> st.SearchStrategy[Expr]:
        return st.deferred(lambda: expressions(of, depth - 1))

    below = {k: later(k) for k in _COLUMNS}
    return st.one_of(_leaves(kind), _general(kind, below), *_SPECIAL[kind](below))


Below = dict[str, st.SearchStrategy[Expr]]


def _call(names: tuple[str, ...], *args: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.builds(lambda name, *a: Call(name, a), st.sampled_from(names), *args)


def _general(kind: str, below: Below) -> st.SearchStrategy[Expr]:
    of = below[kind]
    branch = st.tuples(below["condition"], of)
    case = st.builds(
        lambda b, d: Case(tuple(b), d), st.lists(branch, min_size=1, max_size=2), st.none() | of
    )
    return st.one_of(case, _call(("coalesce", "nullif"), of, of))


def _numbers(below: Below) -> list[st.SearchStrategy[Expr]]:
    of = below["number"]
    return [
        _call(
            ("add", "subtract", "multiply", "floor_div", "mod", "floor_mod", "least", "greatest"),
            of,
            of,
        ),
        _call(("negate", "abs", "sign"), of),
        _call(("length",), below["text"]),
        below["double"].map(lambda e: Cast(e, pa.int64())),
        below["text"].map(lambda e: Cast(e, pa.int64())),
    ]


def _doubles(below: Below) -> list[st.SearchStrategy[Expr]]:
    of, any_ = below["double"], st.one_of(below["double"], below["number"])
    names = ("add", "subtract", "multiply", "divide", "floor_div", "mod", "floor_mod")
    return [
        _call(names, of, any_),
        _call(names, any_, of),
        _call(("divide",), below["number"], below["number"]),
        _call(("negate", "abs", "sign"), of),
        below["number"].map(lambda e: Cast(e, pa.float64())),
    ]


def _texts(below: Below) -> list[st.SearchStrategy[Expr]]:
    of, sizes = below["text"], st.integers(0, 4).map(Literal)
    return [
        _call(("concat",), of, of),
        _call(("lower", "upper", "trim"), of),
        _call(("substring",), of, st.integers(1, 4).map(Literal), sizes),
        _call(("char_at",), of, sizes),
        _call(("replace",), of, literals("text"), literals("text")),
        _call(("least", "greatest"), of, of),
        below["number"].map(lambda e: Cast(e, pa.string())),
    ]


def _conditions(below: Below) -> list[st.SearchStrategy[Expr]]:
    of, any_ = below["condition"], st.one_of(*below.values())
    number = st.one_of(below["number"], below["double"])
    patterns = TEXTS.filter(lambda t: (len(t) - len(t.rstrip("\\"))) % 2 == 0).map(Literal)
    choices = {
        k: st.lists(st.none() | _VALUES[k], max_size=4).map(lambda v: Literal(tuple(v)))
        for k in _VALUES
    }
    return [
        _call(("and", "or"), of, of),
        _call(("not",), of),
        _call(COMPARISONS, number, number),
        *(_call(COMPARISONS, below[k], below[k]) for k in ("text", "condition")),
        _call(("is_null", "is_not_null"), any_),
        _call(("like",), below["text"], patterns),
        _call(("starts_with", "ends_with", "contains"), below["text"], literals("text")),
        *(_call(("in",), below[k], choices[k]) for k in _VALUES),
    ]


_SPECIAL = {"number": _numbers, "double": _doubles, "text": _texts, "condition": _conditions}


def any_expression(depth: int = 3) -> st.SearchStrategy[Expr]:
    return st.one_of(*(expressions(kind, depth) for kind in _COLUMNS))
