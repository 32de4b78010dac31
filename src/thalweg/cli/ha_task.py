"""The tasks of the processes of `thalweg ha`: their command lines, written and read here alone."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

__all__ = ["Engine", "FrontTask", "ReplicaTask", "task_arguments", "task_of"]

Engine = Literal["spark", "in-process"]


@dataclass(frozen=True)
class FrontTask:
    """Merge the logs of the replicas."""

    folder: str
    file: str
    """The Python file of the query."""


@dataclass(frozen=True)
class ReplicaTask:
    """Run the query, and write its log."""

    folder: str
    file: str
    name: str
    engine: Engine
    finish: bool
    """Whether the input is all there: it ends with it."""
    feedback: bool
    """Whether it leaves out what the merge in front has settled."""


def task_arguments(task: FrontTask | ReplicaTask) -> list[str]:
    """
    >>> task_of(task_arguments(FrontTask("q.ha", "q.py")))
    FrontTask(folder='q.ha', file='q.py')
    """
    kind = "replica" if isinstance(task, ReplicaTask) else "front"
    return [kind, json.dumps(asdict(task))]


def task_of(arguments: list[str]) -> FrontTask | ReplicaTask:
    """The inverse of `task_arguments`."""
    kind, text = arguments
    fields = json.loads(text)
    return ReplicaTask(**fields) if kind == "replica" else FrontTask(**fields)
