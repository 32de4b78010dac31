"""Thalweg: continuous queries over events that have lifetimes."""

from typing import TYPE_CHECKING, Any

from thalweg._on_demand import names_on_demand

if TYPE_CHECKING:
    from thalweg.errors import ThalwegError
    from thalweg.expr import call, col, lit
    from thalweg.merging import Merger
    from thalweg.model import (
        INFINITY,
        Adjust,
        Batch,
        Cti,
        Element,
        Insert,
        Progress,
        adjust,
        cht,
        cti,
        elements_of,
        equivalent,
        insert,
        point,
        remove,
    )
    from thalweg.patterns import event, no_event, one_of, optional, repeated, sequence, then
    from thalweg.plan.aggregates import (
        aggregate_by,
        approx_percentile,
        arg_max,
        arg_min,
        avg,
        count,
        first,
        heavy_hitters,
        last,
        max_,
        min_,
        percentile,
        stddev,
        sum_,
        variance,
    )
    from thalweg.plan.applying import module
    from thalweg.plan.join_windows import band, ranges, same_window, widjoin
    from thalweg.plan.merging import MergePolicy
    from thalweg.progress.policies import (
        estimated,
        late_by,
        late_by_rows,
        on_demand,
        ordered,
        quarantine,
        timer,
    )
    from thalweg.run import Engine, Host, changes, events, from_frame, records, run, table
    from thalweg.spark import from_files, from_spark
    from thalweg.sql import sql
    from thalweg.stream import Stream, join_all, merge, source
    from thalweg.windows.specification import arrival, rank, rows

__all__ = [
    "INFINITY",
    "Adjust",
    "Batch",
    "Cti",
    "Element",
    "Engine",
    "Host",
    "Insert",
    "MergePolicy",
    "Merger",
    "Progress",
    "Stream",
    "ThalwegError",
    "adjust",
    "aggregate_by",
    "approx_percentile",
    "arg_max",
    "arg_min",
    "arrival",
    "avg",
    "band",
    "call",
    "changes",
    "cht",
    "col",
    "count",
    "cti",
    "elements_of",
    "equivalent",
    "estimated",
    "event",
    "events",
    "first",
    "from_files",
    "from_frame",
    "from_spark",
    "heavy_hitters",
    "insert",
    "join_all",
    "last",
    "late_by",
    "late_by_rows",
    "lit",
    "max_",
    "merge",
    "min_",
    "module",
    "no_event",
    "on_demand",
    "one_of",
    "optional",
    "ordered",
    "percentile",
    "point",
    "quarantine",
    "ranges",
    "rank",
    "records",
    "remove",
    "repeated",
    "rows",
    "run",
    "same_window",
    "sequence",
    "source",
    "sql",
    "stddev",
    "sum_",
    "table",
    "then",
    "timer",
    "variance",
    "widjoin",
]

_find = names_on_demand(__name__)


def __getattr__(name: str) -> Any:
    """A name that others use gets a hint."""
    if name == "__version__":
        from importlib.metadata import version

        return version("thalweg")
    if name.startswith("__"):
        raise AttributeError(name)
    if name in ("from_files", "from_spark"):
        from thalweg.errors import require_package

        require_package("pyspark", "spark", f"thalweg.{name}")
    if name in __all__:
        return _find(name)
    from thalweg.plan.other_names import unknown_function

    raise unknown_function(name, __all__)
