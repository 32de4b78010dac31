"""Rows of a DataFrame summed up by keys and pane in the JVM, so that only the sums are converted
for Python.

`summing_of` says whether a source can be summed so: `Summing`, or the reason why Python does it, in
the words of `explain()`. The meaning is that of the same steps in Python; what could differ is left
to Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr as sql_expression
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    AtomicType,
    BooleanType,
    ByteType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from thalweg.model.time import MAX_TIME, MIN_TIME
from thalweg.shards.exchange.cells import Cells
from thalweg.shards.host.host_ingest import AnyIngest
from thalweg.shards.sources.event_columns import EventColumns
from thalweg.spark.jvm.run_time_classes import java_class
from thalweg.spark.jvm.sql_conditions import sql_condition

__all__ = ["Summing", "summing_of", "summing_text"]

MOST_CELLS = 1 << 17
"""A task holds so many sums at most, some 20 MB, before it lets them go."""

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_TIMES = (*_WHOLE, TimestampType, TimestampNTZType)
_WHAT = ("count", "sum", "high")
_NONE = -1


@dataclass(frozen=True)
class Summing:
    """What is summed, as the JVM reads it."""

    cells: Cells
    time: str
    conditions: dict[str, str]
    """By our text: the condition in SQL."""

    def over(self, spark: SparkSession, df: DataFrame) -> DataFrame:
        """The cells of a DataFrame (see `shards.exchange.cells.batch_of_cells`)."""
        return _over(spark, self._columns(df), self._layout(), self._schema(df.schema))

    def _columns(self, df: DataFrame) -> DataFrame:
        """Time, keys, the columns that are summed, and the conditions."""
        names = [f"`{name}`" for name in (self.time, *self.cells.keys, *self._summed)]
        tests = [sql_expression(text) for text in [*self._filter, *self._tests]]
        return df.select(*names, *(test.alias(f"_{at}") for at, test in enumerate(tests)))

    @property
    def _summed(self) -> list[str]:
        return list(dict.fromkeys(part.of for part in self.cells.sums if part.of is not None))

    @property
    def _filter(self) -> list[str]:
        """The condition of all rows, if there is one."""
        wheres = [self.conditions[str(where)] for where in self.cells.wheres]
        return [" AND ".join(wheres)] if wheres else []

    @property
    def _tests(self) -> list[str]:
        """The conditions of single sums."""
        wheres = (part.where for part in self.cells.sums if part.where is not None)
        return list(dict.fromkeys(self.conditions[str(where)] for where in wheres))

    def _layout(self) -> list[int]:
        """The numbers that `Layout` in PaneSums.java reads."""
        window, summed, tests = self.cells.panes.window, self._summed, self._tests
        first = 1 + len(self.cells.keys)
        filter_at = first + len(summed)
        tests_at = filter_at + len(self._filter)
        numbers = [
            len(self.cells.keys),
            window.hop,
            window.offset,
            MIN_TIME,
            MAX_TIME - 1,  # a point ends a tick later
            filter_at if self._filter else _NONE,
            MOST_CELLS,
        ]
        for part in self.cells.sums:
            of = _NONE if part.of is None else first + summed.index(part.of)
            where = part.where
            test = _NONE if where is None else tests_at + tests.index(self.conditions[str(where)])
            numbers += [_WHAT.index(part.what), of, test]
        return numbers

    def _schema(self, schema: StructType) -> StructType:
        """Of a cell: its keys, its pane, the newest time, the number of rows, and the sums."""
        cell = StructType()
        for at, key in enumerate(self.cells.keys):
            cell = cell.add(f"key{at}", schema[key].dataType)
        for at in range(3 + len(self.cells.sums)):
            cell = cell.add(f"number{at}", LongType())
        return cell


def summing_of(
    spark: SparkSession, df: DataFrame, ingest: AnyIngest, times: EventColumns
) -> Summing | str | None:
    """How the JVM sums up a source, or why it does not; None: there is nothing to sum."""
    if not ingest.has_panes:
        return None
    cells = ingest.cells
    if cells is None:
        return (
            "they are of computed values, of other than whole numbers, or several queries read the "
            "rows"
        )
    if times.end is not None or times.duration != 1 or times.punctuation is not None:
        return "the rows are no points, or have promises among them"
    why = _why_other_types(df.schema, cells, times.start)
    if why is not None:
        return why
    conditions = _in_sql(cells, df.schema)
    if isinstance(conditions, str):
        return conditions
    try:
        java_class(spark, "PaneSums")
    except Exception as reason:  # another Spark, or one out of reach: Python does it as well
        return f"the JVM's part is not to be had here ({_first_line(reason)})"
    return Summing(cells, times.start, conditions)


def _in_sql(cells: Cells, schema: StructType) -> dict[str, str] | str:
    """The conditions in Spark's SQL, by their text in ours; or why one has no such form."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    found = {}
    for condition in cells.conditions:
        text = sql_condition(condition, arrow)
        if text is None or any(_is_padded(schema, name) for name in condition.columns()):
            return f"Spark may see {condition} otherwise"
        found[str(condition)] = text
    return found


def summing_text(summing: Summing | str) -> str:
    """The decision in one line."""
    if isinstance(summing, Summing):
        return "panes are summed up in the JVM, and only the sums are converted for Python"
    return f"panes are summed up in Python: {summing}"


def _why_other_types(schema: StructType, cells: Cells, time: str) -> str | None:
    if not isinstance(schema[time].dataType, _TIMES):
        return f"the time is {schema[time].dataType.simpleString()}"
    for key in cells.keys:
        if not isinstance(schema[key].dataType, AtomicType):
            return f"the key {key} is {schema[key].dataType.simpleString()}"
    for part in cells.sums:
        kind = None if part.of is None or part.what == "count" else schema[part.of].dataType
        if kind is not None and not isinstance(kind, (*_WHOLE, BooleanType)):
            return f"{part.of} is {kind.simpleString()}"
    return None


def _is_padded(schema: StructType, name: str) -> bool:
    """Whether Spark compares the texts of a column by more than their bytes."""
    kind = schema[name].dataType
    if not isinstance(kind, StringType):
        return False
    collated = getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY"
    return collated or bool(schema[name].metadata)


def _first_line(reason: Exception) -> str:
    return (str(reason).strip().splitlines() or [type(reason).__name__])[0][:120]


def _over(spark: SparkSession, rows: DataFrame, layout: list[int], schema: StructType) -> DataFrame:
    """Call `PaneSums.over`."""
    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark.sparkContext._jvm
    numbers = gateway.new_array(jvm.long, len(layout))
    for at, number in enumerate(layout):
        numbers[at] = number
    arguments = gateway.new_array(jvm.Object, 3)
    arguments[0], arguments[1] = rows._jdf, numbers
    arguments[2] = spark._jsparkSession.parseDataType(schema.json())
    (over,) = (
        method
        for method in java_class(spark, "PaneSums").getDeclaredMethods()
        if method.getName() == "over"
    )
    return DataFrame(over.invoke(None, arguments), rows.sparkSession)
