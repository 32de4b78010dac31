"""The in-process runner: the same graph as everywhere, without Spark."""

from thalweg.io.events import Feed, Input, events
from thalweg.io.records import Records, records
from thalweg.run.engine import Engine, Status, changes, run, table

__all__ = [
    "Engine",
    "Feed",
    "Input",
    "Records",
    "Status",
    "changes",
    "events",
    "records",
    "run",
    "table",
]
