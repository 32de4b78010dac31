"""The in-process runner: the same graph as everywhere, without Spark."""

from thalweg.run.engine import Engine, Status, changes, run, table
from thalweg.run.inputs import Feed, Input, events

__all__ = ["Engine", "Feed", "Input", "Status", "changes", "events", "run", "table"]
