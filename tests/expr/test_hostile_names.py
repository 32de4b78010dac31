"""Names that try to be something else: they come back as themselves, or are refused; they are never
misread."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.errors import ExpressionError, UnknownColumnError
from thalweg.expr import Column, Frame, Literal, col, parse

HOSTILE = [
    'a"b', '"', '""', "'", "''", "a'b", ";", "a; drop table t", "`a`", "a`b", "--", "a--b",
    "/* a */", "{# a #}", "{{a}}", "*", "l.*", "a b", " a", "a ", "\t", "a\nb", "\\", "a\\", "a\\n",
    "()", "f(x)", "1", "1a", "-1", "a.b.c", ".", "a.", ".a", "..", "l.", "NULL", "null", "TRUE",
    "select", "end", "case", "cast", "if", "not", "a=1", "a＝1", "aſ", "ſelect", "K", "K", "lеn",
    "ｌｅｎ", "a\u200b", "\u202e", "a\u00a0b", "é", "e\u0301", "日本", "🙂", "\x00", "a\x00b",
    "$1", "@a", ":a", "?", "%s", "#", "[a]", "1e5", "'x", '"x', "x'", 'x"',
]  # fmt: skip
ODD = st.one_of(
    st.text(min_size=1, max_size=12),
    st.text(alphabet="\"'`;.-/*{}#\\() \n\tab1=<>_%", min_size=1, max_size=12),
    st.sampled_from(HOSTILE),
)


def _readable(name: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in name)  # a lone surrogate is no text for Arrow


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_comes_back(name: str) -> None:
    assert parse(str(col(name))).same(col(name))


@settings(max_examples=500)
@given(ODD.filter(_readable))
def test_any_name_comes_back_quoted_and_reads_its_own_column(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    for text in (str(col(name)), quoted):
        assert parse(text).same(col(name))
    expr = parse(f"{quoted} + 1 > 0")
    assert expr.columns() == {name}
    frame = Frame({"a": pa.array([7, 7]), "b": pa.array([7, 7]), name: pa.array([1, -5])}, 2)
    assert expr.evaluate(frame).to_pylist() == [True, False]


@settings(max_examples=500)
@given(ODD)
def test_a_bare_hostile_text_is_understood_exactly_or_refused(text: str) -> None:
    """Whatever is accepted prints as something that is accepted and the same."""
    try:
        expr = parse(text)
    except ExpressionError:
        return
    assert parse(str(expr)).same(expr)
    if isinstance(expr, Column):
        bare = text.strip()
        assert (
            expr.name == bare
            or '"' in bare
            or bare[0] in "(+"
            or " " in bare
            or "\n" in bare
            or "\t" in bare
        )


@settings(max_examples=500)
@given(ODD, ODD)
def test_hostile_literals_stay_text(one: str, two: str) -> None:
    text = "'" + one.replace("'", "''") + "'"
    assert parse(text).same(Literal(one))
    both = parse(f"{text} = '{two.replace(chr(39), chr(39) * 2)}'")
    assert both.same(Literal(one) == Literal(two))


def test_look_alikes_are_other_names() -> None:
    schema = pa.schema([("len", pa.int64())])
    with pytest.raises(UnknownColumnError, match="Did you mean 'len'"):
        parse("lеn > 1").type_in(schema)  # a Cyrillic letter
    assert not parse('"ｌｅｎ"').same(parse("len"))
    assert not col("é").same(col("e\u0301"))


def test_case_of_column_names_matters() -> None:
    with pytest.raises(UnknownColumnError):
        parse("LEN > 1").type_in(pa.schema([("len", pa.int64())]))


def test_a_quoted_dot_and_a_qualified_name_are_one_column() -> None:
    assert parse('"l.x"').same(parse("l.x")) and parse("l.x").columns() == {"l.x"}
