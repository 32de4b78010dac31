"""Processor time for processes that start beside others that answer.

A Spark application takes every core it gets while it starts. One that is started again beside
replicas that are answering is to use what they leave over, and to run as they do once it is ready.
On Linux each replica is a session of its own. Where the system shares the processor among sessions
(autogroups), the session as a whole gives way; where it shares it among processes, their priorities
do, which is only done by who may raise them again. Elsewhere nothing is changed.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["lower_priority", "may_raise_priority", "restore_priority"]

_LOWER_BY = 5
_PROCESSES = Path("/proc")
_AGAIN_S = 0.1
"""A user may change the share of a session so often."""


@cache
def may_raise_priority() -> bool:
    """Whether this process may raise the priority of one that it has lowered. It tries with
    itself."""
    if not (_PROCESSES / "self" / "task").exists():
        return False
    own = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, own + 1)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, own)
    except PermissionError:
        return False
    return True


def lower_priority(session: int) -> None:
    """A process that has just started a session, and all that it will start, give way to others."""
    _share(session, _LOWER_BY)
    if may_raise_priority():
        with suppress(ProcessLookupError):
            lowered = os.getpriority(os.PRIO_PROCESS, 0) + _LOWER_BY
            os.setpriority(os.PRIO_PROCESS, session, lowered)


def restore_priority(session: int) -> None:
    """All processes of a session run like this one again."""
    _share(session, 0)
    if not may_raise_priority():
        return
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if os.getsid(int(process.name)) == session:
                for thread in (process / "task").iterdir():
                    with suppress(ProcessLookupError):
                        os.setpriority(os.PRIO_PROCESS, int(thread.name), own)


def _share(session: int, nice: int) -> None:
    """How much of the processor a session gets beside others, where sessions are groups."""
    file = _PROCESSES / str(session) / "autogroup"
    while file.exists():
        try:
            file.write_text(str(nice), encoding="ascii")
        except BlockingIOError:
            time.sleep(_AGAIN_S)
        except OSError:  # it has ended meanwhile, or the system has no such groups
            return
        else:
            return
