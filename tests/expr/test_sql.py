"""SQL text: what each form means, and how everything else is refused."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from tests.expr.strategies import SCHEMA, batches, expressions
from thalweg.aggregates import aggregate_names, find_aggregate
from thalweg.errors import EvaluationError, ExpressionError, TypeMismatchError
from thalweg.expr import Expr, Frame, as_expr, call, col, lit, parse
from thalweg.expr.functions import AGGREGATE_NAMES

A, B, C, S = (col(name) for name in "abcs")


@pytest.mark.parametrize(
    ("text", "expr", "printed"),
    [
        ("a", A, "a"),
        ("l.price", col("l.price"), "l.price"),
        ('l."odd name"', col("l.odd name"), '"l.odd name"'),
        ('"odd ""name"""', col('odd "name"'), '"odd ""name"""'),
        ("_start", col("_start"), "_start"),
        ("a.b.c", col("a.b.c"), '"a.b.c"'),
        ("1", lit(1), "1"),
        ("-1", lit(-1), "-1"),
        ("- a", -A, "-a"),
        ("+a", A, "a"),
        ("-(1)", -lit(1), "-(1)"),
        ("--1", -lit(-1), "-(-1)"),
        ("a --1", A - -1, "a - -1"),
        ("1.5e3", lit(1500.0), "1500.0"),
        (".5", lit(0.5), "0.5"),
        ("5.", lit(5.0), "5.0"),
        ("'it''s'", lit("it's"), "'it''s'"),
        ("TRUE", lit(True), "TRUE"),
        ("null", lit(None), "NULL"),
        ("a + b * c", A + B * C, "a + b * c"),
        ("(a + b) * c", (A + B) * C, "(a + b) * c"),
        ("a - b - c", A - B - C, "a - b - c"),
        ("a - (b - c)", A - (B - C), "a - (b - c)"),
        ("a // b % c", A // B % C, "a // b % c"),
        ("a div b", A // B, "a // b"),
        ("a = b", A == B, "a = b"),
        ("a == b", A == B, "a = b"),
        ("a <> b", A != B, "a <> b"),
        ("a != b", A != B, "a <> b"),
        ("a <= b", A <= B, "a <= b"),
        ("a >= b", A >= B, "a >= b"),
        ("a < 1 AND b > 2 or c = 3", (A < 1) & (B > 2) | (C == 3), "a < 1 AND b > 2 OR c = 3"),
        (
            "a < 1 AND (b > 2 or c = 3)",
            (A < 1) & ((B > 2) | (C == 3)),
            "a < 1 AND (b > 2 OR c = 3)",
        ),
        ("not a = b", ~(A == B), "NOT a = b"),
        ("not a and b", ~A & B, "NOT a AND b"),
        ("not (a and b)", ~(A & B), "NOT (a AND b)"),
        ("a between 1 and 2 and b", (A >= 1) & (A <= 2) & B, "a >= 1 AND a <= 2 AND b"),
        ("a not between 1 and 2", ~((A >= 1) & (A <= 2)), "NOT (a >= 1 AND a <= 2)"),
        ("a in (1, -2)", A.isin([1, -2]), "a IN (1, -2)"),
        ("a not in ('x')", ~A.isin(["x"]), "NOT a IN ('x')"),
        ("s like 'x%'", call("like", S, "x%"), "s LIKE 'x%'"),
        ("s not like 'x%'", ~call("like", S, "x%"), "NOT s LIKE 'x%'"),
        ("a is null", A.is_null(), "a IS NULL"),
        ("a is not null", A.is_not_null(), "a IS NOT NULL"),
        ("a + b is null", (A + B).is_null(), "a + b IS NULL"),
        ("s || 'x' || s", call("concat", call("concat", S, "x"), S), "concat(concat(s, 'x'), s)"),
        (
            "CASE a WHEN 1 THEN b ELSE c END",
            parse("case when a = 1 then b else c end"),
            "CASE WHEN a = 1 THEN b ELSE c END",
        ),
        ("if(a, b, c)", parse("case when a then b else c end"), "CASE WHEN a THEN b ELSE c END"),
        ("cast(a as bigint)", A.cast(pa.int64()), "CAST(a AS bigint)"),
        ("Coalesce(a, 1)", A.if_null(1), "coalesce(a, 1)"),
        ("if_null(a, 1)", A.if_null(1), "coalesce(a, 1)"),
        ("substr(s, 1, 2)", S.substring(1, 2), "substring(s, 1, 2)"),
        ("date", col("date"), "date"),
        ("timestamp > rank", col("timestamp") > col("rank"), "timestamp > rank"),
        ("end", col("end"), '"end"'),
        ('"select"', col("select"), '"select"'),
        ("\n a\n\t+ 1 ", A + 1, "a + 1"),
        ("a[1]", call("element_at", A, 1), "element_at(a, 1)"),
        ("a::int", A.cast(pa.int32()), "CAST(a AS int)"),
        ("a::decimal(10,2)", A.cast(pa.decimal128(10, 2)), "CAST(a AS decimal(10, 2))"),
        ("a is distinct from b", call("is_distinct", A, B), "a IS DISTINCT FROM b"),
        ("s ilike 'x'", call("ilike", S, "x"), "s ILIKE 'x'"),
        ("s rlike 'x'", call("regexp_like", S, "x"), "regexp_like(s, 'x')"),
        ("extract(hour from a)", call("extract", "hour", A), "extract('hour', a)"),
        ("trim(leading 'x' from s)", call("ltrim", S, "x"), "ltrim(s, 'x')"),
        ("a + interval '1' month", call("add_months", A, 1), "add_months(a, 1)"),
        ("interval", col("interval"), '"interval"'),
        (
            "a + interval '10' minute",
            A + timedelta(minutes=10),
            "a + INTERVAL '600000000' MICROSECOND",
        ),
    ],
)
def test_forms(text: str, expr: Expr, printed: str) -> None:
    found = parse(text)
    assert found.same(expr), str(found)
    assert str(found) == printed
    assert parse(printed).same(found)


@pytest.mark.parametrize(
    ("text", "message", "caret"),
    [
        ("a; drop table t", "one expression is expected; ';' ends it", 1),
        ("a;", "one expression is expected", 1),
        ("select 1", "not a statement (select)", 0),
        ("SELECT -1", "'SELECT' begins a statement", 0),
        ("(select a)", "not supported", 1),
        ("a in (select 1)", "expecting )", 13),
        ("exists(select 1)", "expecting )", 14),
        ("drop", "'drop' begins a statement", 0),
        ("l.delete", "'delete' begins a statement", 2),
        ("lenght(s) > 1", "unknown function 'lenght'. Did you mean 'length'?", 0),
        ("1 + abss(a)", "unknown function 'abss'. Did you mean 'abs'?", 4),
        ("count(*)", "count is an aggregate", 0),
        ("abs(*)", "not supported", 4),
        ("sum(a)", "sum is an aggregate, and an expression here is about one row", 0),
        ("1 + string_agg(a, no_column)", "there is no aggregate 'string_agg'. Write one with", 4),
        ("a.abs(b)", "not supported", 0),
        ('"abs"(a)', "is not the name of a function", 0),
        ("abs(a, b)", "abs takes 1 argument; got 2", 0),
        ("1 + substring(s)", "substring takes 2 to 3 arguments; got 1", 4),
        ("coalesce()", "coalesce takes 1 or more arguments; got 0", 0),
        ("if(a)", "if takes a condition and one or two values; got 1", 0),
        ("a +", "something is missing at '+'", 2),
        ("a and", "something is missing at 'and'", 2),
        ("(a", "expecting ) at 'a'", 1),
        ("a b", "'b' is not expected here", 2),
        ("a as b", "'as' is not expected here", 2),
        ("a ** 2", "'2' is not expected here", 5),
        ("a ^ 2", "'^' is not part of an expression", 2),
        ("a & b", "'&' is not part of an expression", 2),
        ("~a", "'~' is not part of an expression", 0),
        ("!a", "'!' is not part of an expression", 0),
        ("{a}", "'{' is not part of an expression", 0),
        (
            "`a`",
            (
                "'`' is not part of an expression. A name with odd characters goes between double "
                "quotes"
            ),
            0,
        ),
        (":p", "':' is not part of an expression", 0),
        ("?", "'?' is not part of an expression", 0),
        ("@a", "'@' is not part of an expression", 0),
        ("a -> b", "something is missing", 3),
        ("a /* c */", "'b'", None),
        ("a {# c #}", "no comments", 0),
        ("'x", "a quote is opened and never closed", 0),
        ('a > "x', "a quote is opened and never closed", 4),
        ("'a' 'b'", "two texts stand side by side; join them with ||", 4),
        ("N'x'", "is not part of an expression", 0),
        ("0x10", "'x10' is not expected here", 1),
        ("1_000", "'_000' is not expected here", 1),
        ("1 + 99999999999999999999", "does not fit in a bigint", 4),
        ("1e999", "too large for a double", 0),
        ("cast(a as foo)", "unknown type 'foo'", 5),
        ("cast(a as bigintt)", "Did you mean 'bigint'?", 5),
        ("cast(a bigint)", "a cast takes a value, AS and a type", 7),
        ("cast(a as decimal(99, 2))", "unknown type 'decimal(99, 2)'", 5),
        ("a::blob", "unknown type 'blob'", 0),
        ("a[1, 2]", "one item is named between the brackets", 0),
        ("date '2020-13-01'", "'2020-13-01' is no time", 5),
        ("a > interval '1' month", "months and years have no fixed length", None),
        ("interval '1' fortnight", "is not understood", 9),
        ("now()", "gives another value whenever it is computed", 0),
        ("a in (b)", "IN takes a list of constants", 0),
        ("a in b", "not supported", 0),
        ("a is b", "IS takes NULL, TRUE or FALSE", 0),
        ("s like 'x' escape '!'", "'escape' is not expected here", 11),
        ("case when a 1 end", "this WHEN has no THEN", 5),
        ("case a then 1 end", "this THEN has no WHEN", 7),
        ("case when a then 1", "expected END after CASE", 17),
        ("case else 1 end", "something is missing", 12),
        ("()", "not supported", 0),
        ("(a, b)", "not supported", 1),
        ("l.*", "is not the name of a column", 0),
        ("*", "not supported", 0),
        ('a > ""', "a name is missing between the quotes", 4),
        ("abs(a) over ()", "is not expected here", 7),
        ("a\n + foo(b)", "unknown function 'foo'", 3),
        ("a ſ", "'ſ' is not expected here", 2),
        ("a iſ null", "'iſ' only looks like a word of SQL", 2),
        ("ſqrt(a)", "is not the name of a function", 0),
        ("a = 1２", "is not", None),
        ("a＝1", "'a＝1' is not a name", 0),
        ("a\u200b = 1", "is not a name", 0),
        ("a = “x”", "is not a name", 4),
    ],
)
def test_refusals(text: str, message: str, caret: int | None) -> None:
    here = inspect.currentframe()
    assert here is not None
    with pytest.raises(ExpressionError) as caught:
        parse(text)  # the blamed line
    said = str(caught.value)
    if caret is not None:
        assert message in said
        lines = said.splitlines()
        pointed = next(number for number, line in enumerate(lines) if line.strip() == "^")
        assert lines[pointed].index("^") == caret + 2
        assert lines[pointed - 1][2:] in text.replace("\t", " ")
    source, first = inspect.getsourcelines(test_refusals)
    blamed = first + next(
        number for number, line in enumerate(source) if "# the blamed line" in line
    )
    assert (caught.value.file, caught.value.line) == (__file__, blamed)
    assert f"{__file__}:{blamed}" in said


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_no_expression_at_all(text: str) -> None:
    with pytest.raises(ExpressionError, match="is empty"):
        parse(text)


def test_text_or_expression() -> None:
    assert as_expr("a + 1").same(A + 1)
    assert as_expr(A) is A
    with pytest.raises(ExpressionError, match=r"Wrap a constant as lit\(5\)"):
        as_expr(5)  # type: ignore[arg-type]


def test_all_aggregates_are_told_from_unknown_functions() -> None:
    made: dict[str, Any] = {name: find_aggregate(name) for name in aggregate_names()}
    classes = {name: getattr(found.make, "func", found.make) for name, found in made.items()}
    ours = {name for name, found in classes.items() if found.__module__.startswith("thalweg.")}
    assert ours == AGGREGATE_NAMES


@pytest.mark.parametrize(
    "text", ["(" * 5000 + "a" + ")" * 5000, "a" + " + a" * 5000, "not " * 5000 + "a"]
)
def test_bottomless_text_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError, match="more than 250 levels deep"):
        parse(text)


@pytest.mark.parametrize("levels", [251, 20_000])
def test_bottomless_typed_expressions_are_refused_and_can_be_shown(levels: int) -> None:
    expr: Expr = A
    for _ in range(levels):
        expr = expr + 1
    with pytest.raises(ExpressionError, match="more than 250 levels deep"):
        as_expr(expr)
    assert repr(expr)


def test_long_text_that_is_accepted_can_be_used() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1, 2]})
    expr = parse("a" + " + a" * 240)
    assert expr.evaluate(Frame.of(rows)).to_pylist() == [241, 482]
    assert expr.type_in(rows.schema) == pa.int64() and parse(str(expr)).same(expr)
    many = parse("a in (" + ", ".join(map(str, range(5000))) + ")")
    assert many.evaluate(Frame.of(rows)).to_pylist() == [True, True]


# ---------------------------------------------------------------- a second opinion: DuckDB

duckdb = pytest.importorskip("duckdb")
_SKIPPED = (
    "floor_div",
    "concat",
    " / ",
    "floor_mod",
    "char_at",
    "LIKE",
    "CAST",
    "//",
    "trim",
    "%",
    "lower",
    "upper",
    "replace",
)


def _duck(expr: Expr, rows: pa.RecordBatch) -> list[Any]:
    """The same text, evaluated by another engine."""
    table = pa.Table.from_batches(
        [rows.rename_columns([name.replace("l.", "l_") for name in rows.schema.names])]
    )
    named = expr.rename({name: name.replace("l.", "l_") for name in rows.schema.names})
    with duckdb.connect() as connection:
        connection.register("rows_", table)
        return [row[0] for row in connection.execute(f"select {named} as v from rows_").fetchall()]


@settings(max_examples=60, deadline=None)
@given(expressions("condition"), batches())
def test_the_text_of_a_condition_means_the_same_to_duckdb(expr: Expr, rows: pa.RecordBatch) -> None:
    text = str(expr)
    if any(word in text for word in _SKIPPED) or "IN ()" in text or "\\" in text:
        return
    try:
        expr.type_in(SCHEMA)
        found = expr.evaluate(Frame.of(rows)).to_pylist()
        other = _duck(expr, rows)
    except (EvaluationError, TypeMismatchError, duckdb.Error):
        return
    assert found == other


@pytest.mark.parametrize(
    "text",
    [
        "a + b * 2 - 1",
        "not a = b and b = 1 or a is null",
        "a = 1 or a = 2 and b = 3",
        "not (a > b) or b between 1 and 2 and a < 3",
        "a + 1 in (2, 3) = true",
        "a between b and 3 or a not in (1, null)",
        "case when a > b then 'x' when a is null then 'n' else s end",
        "s like 'a%' or s not like '%b'",
        "- a + b",
        "a - -b",
        "-a * -b",
        "s || 'x' = 'ax'",
        "a is null = (b is null)",
        "coalesce(nullif(a, b), 0) > 0",
        "not a is null",
        "a % 2 = 1 or b / 2 > 0.5",
        "length(s) + 1 > 1 and upper(s) <> 'A'",
        "substring(s, 2, 1) = 'b'",
        "greatest(a, b) - least(a, b)",
        "round(a / 4, 1)",
        "abs(a - b) * sign(a)",
    ],
)
def test_chosen_texts_mean_the_same_to_duckdb(text: str) -> None:
    values = [None, 0, 1, 2, 3]
    table = {
        "a": pa.array([a for a in values for _ in values], pa.int64()),
        "b": pa.array(values * 5, pa.int64()),
        "s": pa.array(["a", "ab", None, "", "b"] * 5),
    }
    rows = pa.RecordBatch.from_pydict(table)
    expr = parse(text)
    with duckdb.connect() as connection:
        connection.register("rows_", pa.Table.from_batches([rows]))
        wanted = [row[0] for row in connection.execute(f"select {text} as v from rows_").fetchall()]
    assert expr.evaluate(Frame.of(rows)).to_pylist() == wanted
