"""The model: elements, batches, lifetimes, the canonical history table, progress. Knows nothing
else."""

from thalweg.model import _arrow, _memory  # noqa: F401  # isort: skip  # before anything else

from thalweg.model.batch import CONTROL_COLUMNS, Batch
from thalweg.model.cht import Row, cht, equivalent, rows_of_table, table_of_batches
from thalweg.model.delta import Delta
from thalweg.model.element_batches import batches_of, elements_of
from thalweg.model.elements import (
    Adjust,
    Cti,
    Element,
    Insert,
    Payload,
    adjust,
    cti,
    insert,
    point,
    remove,
)
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.soundness import (
    Violation,
    assert_sound,
    first_violation,
    first_violation_in_batches,
)
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Duration, duration_us, time_us

__all__ = [
    "CONTROL_COLUMNS",
    "INFINITY",
    "MAX_TIME",
    "MIN_TIME",
    "NO_PROGRESS",
    "Adjust",
    "Batch",
    "Cti",
    "Delta",
    "Duration",
    "Element",
    "Insert",
    "Payload",
    "Progress",
    "Row",
    "Violation",
    "adjust",
    "assert_sound",
    "batches_of",
    "cht",
    "cti",
    "duration_us",
    "elements_of",
    "equivalent",
    "first_violation",
    "first_violation_in_batches",
    "insert",
    "point",
    "remove",
    "rows_of_table",
    "table_of_batches",
    "time_us",
]
