"""Processor time for processes that start beside others that answer.

A Spark application takes every core it gets while it starts. One that is started again beside
replicas that are answering is to use what they leave over, and to run as they do once it is ready.
Lowering a priority is always allowed; raising it again needs a right that not every user has, so
that without it nothing is lowered.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["lower_priority", "may_raise_priority", "restore_priority"]

_LOWER_BY = 10
_PROCESSES = Path("/proc")


def may_raise_priority() -> bool:
    """Whether this process may undo what `lower_priority` does. It tries with itself."""
    if not (_PROCESSES / "self" / "task").exists():
        return False
    own = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, own + 1)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, own)
    except PermissionError:
        return False
    return True


def lower_priority(pid: int) -> None:
    """A process that was just started, the leader of a session of its own, and what it will start
    give way to others."""
    with suppress(ProcessLookupError):
        lowered = os.getpriority(os.PRIO_PROCESS, 0) + _LOWER_BY
        os.setpriority(os.PRIO_PROCESS, pid, lowered)


def restore_priority(session: int) -> None:
    """All processes of a session run like this one again."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if os.getsid(int(process.name)) == session:
                for thread in (process / "task").iterdir():
                    with suppress(ProcessLookupError):
                        os.setpriority(os.PRIO_PROCESS, int(thread.name), own)
