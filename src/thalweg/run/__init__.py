"""The in-process runner: the same graph as everywhere, without Spark."""

from thalweg.io.feeds import Feed, Input
from thalweg.io.frame_events import events
from thalweg.io.records import Records, records
from thalweg.run.engine import Engine
from thalweg.run.frame_source import from_frame
from thalweg.run.host import Host
from thalweg.run.plotting import Timeline
from thalweg.run.pulling import changes, run, table
from thalweg.run.status import Status

__all__ = [
    "Engine",
    "Feed",
    "Host",
    "Input",
    "Records",
    "Status",
    "Timeline",
    "changes",
    "events",
    "from_frame",
    "records",
    "run",
    "table",
]
