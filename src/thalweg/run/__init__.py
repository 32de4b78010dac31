"""The in-process runner: the same graph as everywhere, without Spark."""

from thalweg.run.engine import Engine, Status, changes, run, table
from thalweg.run.inputs import Feed, Input, events
from thalweg.run.records import Records, records

__all__ = ["Engine", "Feed", "Input", "Records", "Status", "changes", "events", "records", "run", "table"]
