"""Scalar forms that a user of Spark or Flink would try, taken from the function pages of their
manuals, each with what DuckDB calls the same.

A form without a second text is DuckDB's too. The table has nulls in every column.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

__all__ = ["FORMS", "REFUSED", "ROWS"]

ROWS = pa.table(
    {
        "i": pa.array([7, -3, 0, None, 42], pa.int64()),
        "d": pa.array([2.5, -1.25, 0.0, 1e3, None], pa.float64()),
        "s": pa.array(["ann@mill.org", "Bob", "", None, "a,b,c"]),
        "n": pa.array(["12", "-7", "x", None, "40"]),
        "t": pa.array(
            [
                datetime(2026, 3, 29, 1, 30, 59),
                datetime(2024, 2, 29, 23, 59, 59, 999_999),
                datetime(1969, 12, 31, 12),
                None,
                datetime(2026, 12, 31),
            ],
            pa.timestamp("us"),
        ),
        "v": pa.array(
            [
                datetime(2026, 3, 28, 23),
                datetime(2024, 3, 1),
                datetime(1970, 1, 1),
                datetime(2020, 1, 1),
                None,
            ],
            pa.timestamp("us"),
        ),
        "day": pa.array(
            [date(2026, 3, 29), date(2024, 2, 29), date(1969, 12, 31), None, date(2026, 12, 31)]
        ),
        "m": pa.array(
            [Decimal("12.50"), Decimal("-0.01"), Decimal(0), None, Decimal("99.99")],
            pa.decimal128(10, 2),
        ),
        "p": pa.array(
            [{"x": 1, "y": "one"}, {"x": None, "y": ""}, None, {"x": 4, "y": "four"}, {"x": 5}],
            pa.struct([("x", pa.int64()), ("y", pa.string())]),
        ),
        "l": pa.array([[1, 2, 3], [], None, [None, 5], [7]], pa.list_(pa.int64())),
    }
)

FORMS: dict[str, str] = {
    # types and times as they are written
    "CAST(n AS varchar)": "",
    "TRY_CAST(n AS int)": "",
    "i::double": "",
    "CAST(i AS decimal(10, 2))": "",
    "t >= TIMESTAMP '2026-01-01 00:00:00'": "",
    "t < '2026-03-29 02:00:00'": "",
    "day = DATE '2024-02-29'": "",
    "CAST(t AS date)": "",
    "to_timestamp('2026-03-29 01:30:00')": "TIMESTAMP '2026-03-29 01:30:00'",
    "to_date(t)": "CAST(t AS date)",
    # time arithmetic
    "t + INTERVAL '1' HOUR": "",
    "t - INTERVAL 10 MINUTES": "",
    "t + INTERVAL '1' MONTH": "",
    "t BETWEEN v AND v + INTERVAL '10' MINUTE": "",
    "t - v > INTERVAL '1' DAY": "",
    "date_trunc('hour', t)": "",
    "date_trunc('week', t)": "CAST(date_trunc('week', t) AS timestamp)",
    "date_trunc('month', t)": "CAST(date_trunc('month', t) AS timestamp)",
    "extract(hour FROM t)": "",
    "extract(epoch FROM t)": "CAST(floor(epoch(t)) AS bigint)",
    "year(t)": "",
    "month(t)": "",
    "dayofmonth(t)": "",
    "dayofweek(t)": "dayofweek(t) + 1",
    "dayofyear(t)": "",
    "weekofyear(t)": "",
    "quarter(t)": "",
    "hour(t)": "",
    "minute(t)": "",
    "second(t)": "",
    "unix_timestamp(t)": "CAST(floor(epoch(t)) AS bigint)",
    "date_format(t, 'yyyy-MM-dd HH:mm')": "strftime(t, '%Y-%m-%d %H:%M')",
    "timestampdiff(MINUTE, v, t)": "date_sub('minute', v, t)",
    "datediff(t, v)": "date_diff('day', v, t)",
    "add_months(t, 1)": "t + INTERVAL 1 MONTH",
    # text
    "s ILIKE 'B%'": "",
    "s RLIKE '^[a-z]+@'": "regexp_matches(s, '^[a-z]+@')",
    "regexp_extract(s, '([a-z]+)@([a-z]+)', 2)": "",
    "regexp_replace(s, '[aeiou]', '*')": "regexp_replace(s, '[aeiou]', '*', 'g')",
    "char_length(s)": "length(s)",
    "ltrim(s, 'a')": "",
    "substring(s FROM 2 FOR 3)": "",
    "position('b' IN s)": "",
    "lpad(s, 5, '*')": "",
    "rpad(s, 5, '*')": "",
    "left(s, 2)": "",
    "right(s, 2)": "",
    "reverse(s)": "",
    "repeat(s, 2)": "",
    "split_part(s, ',', 2)": "",
    "concat_ws('-', s, n)": "",
    "initcap(n)": "upper(n[1]) || lower(n[2:])",
    # numbers, conditions, and what is inside of values
    "m * 2 + m": "",
    "round(d, 1)": "",
    "log10(abs(i) + 1)": "",
    "i IS DISTINCT FROM 7": "",
    "nvl(i, 0)": "ifnull(i, 0)",
    "p.x": "",
    "l[1]": "",
    "cardinality(l)": "len(l)",
}
"""Sixty forms, and DuckDB's text where it differs."""

REFUSED = "current_timestamp()"
"""The one that is refused by name: an answer that is computed again would not be the same."""
