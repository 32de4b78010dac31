"""Text: positions, patterns, null, and characters that are not ASCII."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.expr.oracle import like
from thalweg.errors import TypeMismatchError
from thalweg.expr import Frame, call, col, parse

WORDS = ["Grün", "a", "", None]


def run(text: str, values: list[str | None], type_: pa.DataType | None = None) -> list[Any]:
    rows = pa.RecordBatch.from_arrays([pa.array(values, type_ or pa.string())], names=["s"])
    expr = parse(text)
    found = expr.evaluate(Frame.of(rows))
    assert found.type == expr.type_in(rows.schema)
    return found.to_pylist()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("lower(s)", ["grün", "a", "", None]),
        ("upper(s)", ["GRÜN", "A", "", None]),
        ("length(s)", [4, 1, 0, None]),
        ("substring(s, 2, 2)", ["rü", "", "", None]),
        ("substr(s, 3)", ["ün", "", "", None]),
        ("substring(s, 1, 0)", ["", "", "", None]),
        ("char_at(s, 0)", ["G", "a", None, None]),
        ("char_at(s, 2)", ["ü", None, None, None]),
        ("s || '-' || s", ["Grün-Grün", "a-a", "-", None]),
        ("s + '!'", ["Grün!", "a!", "!", None]),
        ("'!' + s", ["!Grün", "!a", "!", None]),
        ("s || null", [None, None, None, None]),
        ("concat(s, 'x', s)", ["GrünxGrün", "axa", "x", None]),
        ("concat(s)", WORDS),
        ("starts_with(s, 'Gr')", [True, False, False, None]),
        ("ends_with(s, 'ün')", [True, False, False, None]),
        ("contains(s, 'rü')", [True, False, False, None]),
        ("contains(s, '')", [True, True, True, None]),
        ("contains(s, null)", [None, None, None, None]),
        ("replace(s, 'ü', 'ue')", ["Gruen", "a", "", None]),
        ("replace(s, '', 'x')", WORDS),
        ("replace(s, null, 'x')", [None, None, None, None]),
        ("s like 'G%'", [True, False, False, None]),
        ("s not like 'G%'", [False, True, True, None]),
        ("s like '_'", [False, True, False, None]),
        ("s like null", [None, None, None, None]),
        ("s > 'b'", [False, False, False, None]),
        ("trim(s, 'Gn')", ["rü", "a", "", None]),
        ("trim(s, '')", WORDS),
        ("trim(s, null)", [None, None, None, None]),
    ],
)
@pytest.mark.parametrize(
    "type_",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
)
def test_functions(text: str, wanted: list[Any], type_: pa.DataType) -> None:
    assert run(text, WORDS, type_) == wanted


def test_trim_takes_spaces_only() -> None:
    assert run("trim(s)", ["  a b ", "\ta\n", " "]) == ["a b", "\ta\n", ""]


def test_quotes_and_backslashes_are_themselves() -> None:
    assert run("s = 'it''s'", ["it's"]) == [True]
    assert run(r"s = 'a\nb'", ["a\\nb", "a\nb"]) == [True, False]
    assert run("s = '--'", ["--"]) == [True]
    assert run("s = ';'", [";"]) == [True]


@given(
    st.lists(st.text(alphabet="ab%_\\.\n*(é", max_size=5)),
    st.text(alphabet="ab%_\\.\n*(é", max_size=5),
)
def test_like_means_what_sql_says(values: list[str], pattern: str) -> None:
    expr = call("like", col("s"), pattern)
    rows = pa.RecordBatch.from_arrays([pa.array(values, pa.string())], names=["s"])
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        with pytest.raises(TypeMismatchError, match="escapes nothing"):
            expr.type_in(rows.schema)
    else:
        assert expr.evaluate(Frame.of(rows)).to_pylist() == [
            like(value, pattern) for value in values
        ]


def test_like_exhaustively_on_short_texts() -> None:
    values = ["".join(letters) for size in range(4) for letters in product("a.%_\\\n", repeat=size)]
    rows = pa.RecordBatch.from_arrays([pa.array(values)], names=["s"])
    for pattern in (
        "".join(letters) for size in range(4) for letters in product("a.%_\\", repeat=size)
    ):
        if (len(pattern) - len(pattern.rstrip("\\"))) % 2 == 0:
            found = call("like", col("s"), pattern).evaluate(Frame.of(rows)).to_pylist()
            assert found == [like(value, pattern) for value in values], pattern


def test_the_method_counts_from_one() -> None:
    rows = pa.RecordBatch.from_pydict({"s": ["abcdef"]})
    assert col("s").substring(2, 3).evaluate(Frame.of(rows)).to_pylist() == ["bcd"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("substring(s, 0)", "the start of a substring must be a whole number from 1 on, not 0"),
        ("substring(s, -2, 1)", "must be a whole number from 1 on, not -2"),
        (
            "substring(s, 1, -1)",
            "the length of a substring must be a whole number from 0 on, not -1",
        ),
        ("substring(s, 1.5)", "not 1.5"),
        ("substring(s, true)", "not True"),
        ("substring(s, null)", "not None"),
        (
            "substring(s, length(s))",
            "the start of a substring must be a constant; it is a column here",
        ),
        ("char_at(s, -1)", "the position of a character must be a whole number from 0 on"),
        ("s like s", "the pattern must be a constant"),
        ("s like 1", "the pattern must be text, not int64"),
        ("replace(s, s, 'a')", "the text to replace must be a constant"),
        ("lower(1)", "text is needed, not int64"),
        ("length(true)", "text is needed, not bool"),
        ("s + 1", "string and int64 do not go together"),
        ("1 + s", "a number is needed, not string"),
        ("s - s", "a number is needed, not string"),
        ("concat(s, 1)", "text is needed, not int64"),
    ],
)
def test_what_text_functions_refuse(text: str, message: str) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        parse(text).type_in(pa.schema([("s", pa.string())]))
    assert message in str(caught.value)
