"""Names that people reach for, from pandas, Polars, Spark and SQL, and what they are called
here."""

from __future__ import annotations

from collections.abc import Mapping

from thalweg.errors import UnknownNameError, did_you_mean

__all__ = ["FUNCTIONS", "METHODS", "unknown_function", "unknown_method"]

METHODS: Mapping[str, str] = {
    "filter": "where",
    "agg": "aggregate",
    "aggregate": "aggregate behind a window: .tumbling('10 min').aggregate(...)",
    "groupBy": "group_by",
    "groupby": "group_by",
    "groupBykey": "group_by",
    "withColumn": "with_columns",
    "with_column": "with_columns",
    "withColumns": "with_columns",
    "assign": "with_columns",
    "withColumnRenamed": "rename",
    "selectExpr": "select",
    "dropDuplicates": "distinct",
    "drop_duplicates": "distinct",
    "unique": "distinct",
    "unionAll": "union",
    "concat": "union",
    "window": "tumbling, hopping, session or sliding",
    "tumble": "tumbling",
    "hop": "hopping",
    "resample": "tumbling",
    "rolling": "slide_by_tuple",
    "join_asof": "asof_join",
    "merge": "join, window_join or asof_join",
    "explode": "select_many(unnest=...)",
    "flat_map": "select_many",
    "map": "select or with_columns",
    "limit": "top_k",
    "head": "top_k",
    "orderBy": "top_k",
    "order_by": "top_k",
    "sort": "top_k",
    "count": "aggregate(n=tw.count()) after a window",
    "sum": "aggregate(total=tw.sum_('x')) after a window",
    "mean": "aggregate(mean=tw.avg('x')) after a window",
    "avg": "aggregate(mean=tw.avg('x')) after a window",
    "min": "aggregate(least=tw.min_('x')) after a window",
    "max": "aggregate(most=tw.max_('x')) after a window",
    "collect": "tw.table(stream)",
    "show": "print(tw.table(stream))",
    "to_pandas": "tw.table(stream).to_pandas()",
    "toPandas": "tw.table(stream).to_pandas()",
    "to_polars": "tw.table(stream).to_polars()",
    "to_csv": "tw.table(stream).to_pandas().to_csv(...)",
    "to_parquet": "tw.table(stream).to_pandas().to_parquet(...)",
    "to_arrow": "tw.table(stream).to_arrow()",
    "run": "tw.table(stream), tw.changes(stream) or tw.run(stream)",
    "start": "thalweg.spark.start(stream)",
    "write": "thalweg.spark.start(stream, to=...)",
    "writeStream": "thalweg.spark.start(stream, to=...)",
    "withWatermark": "disorder= of the source",
}
"""Methods of streams under other names."""

FUNCTIONS: Mapping[str, str] = {
    "sum": "sum_",
    "min": "min_",
    "max": "max_",
    "mean": "avg",
    "average": "avg",
    "std": "stddev",
    "var": "variance",
    "median": "percentile(x, 0.5)",
    "quantile": "percentile",
    "count_distinct": "sql with COUNT(DISTINCT x)",
    "read_csv": "from_files(folder, time=..., format='csv')",
    "read_parquet": "from_files(folder, time=...)",
    "from_pandas": "from_frame",
    "from_polars": "from_frame",
    "from_arrow": "from_frame",
    "from_table": "from_frame",
    "Table": "table",
    "watermark": "late_by",
    "tumbling": "stream.tumbling(...)",
    "hopping": "stream.hopping(...)",
}
"""Functions of the package under other names."""


def unknown_method(thing: object, name: str) -> AttributeError:
    """The error for a method that something does not have."""
    kind = type(thing).__name__
    if name.startswith("_"):
        return AttributeError(f"{kind} has no attribute {name!r}")
    methods = [attribute for attribute in dir(type(thing)) if not attribute.startswith("_")]
    replacement = METHODS.get(name)
    if replacement not in methods:
        replacement = METHODS.get(replacement or "", replacement)
    if replacement in methods or (replacement is not None and not replacement.isidentifier()):
        return UnknownNameError(f"{kind} has no {name!r}; here it is {replacement}.")
    return UnknownNameError(f"{kind} has no {name!r}{did_you_mean(name, methods)}")


def unknown_function(name: str, names: list[str]) -> AttributeError:
    """The error for a name that the package does not have."""
    if name.startswith("_"):
        return AttributeError(f"module 'thalweg' has no attribute {name!r}")
    replacement = FUNCTIONS.get(name)
    hint = f"; here it is {replacement}." if replacement is not None else did_you_mean(name, names)
    return UnknownNameError(f"thalweg has no {name!r}{hint}")
