"""Who gets the processor: replicas that answer before replicas that start, and before what a killed
one has left behind.

A Spark application uses every core while it starts. A replica that restarts beside replicas that
are answering runs at a lower priority, which is restored once it is ready.
On Linux each replica is a session of its own. Where the system shares the processor among sessions
(autogroups), the priority of the session decides and is lowered; otherwise that of each process,
which is lowered only if this process may raise it again. On other systems nothing is changed.
They are not given the lowest priority: on a busy machine a replica would then not be back for
minutes, in which one more kill ends all answers.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["end_session", "lower_priority", "may_raise_priority", "restore_priority"]

_LOWER_BY = 5
_PROCESSES = Path("/proc")
_AGAIN_S = 0.1
"""The least time between two changes of a session's nice value by a user."""


@cache
def may_raise_priority() -> bool:
    """Whether this process may raise a priority that it has lowered; tried on itself."""
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
    """Lower the priority of a process that has just started a session, and of its children."""
    _share(session, _LOWER_BY)
    if may_raise_priority():
        with suppress(ProcessLookupError):
            lowered = os.getpriority(os.PRIO_PROCESS, 0) + _LOWER_BY
            os.setpriority(os.PRIO_PROCESS, session, lowered)


def restore_priority(session: int) -> None:
    """Give all processes of a session the priority of this process."""
    _share(session, 0)
    if not may_raise_priority():
        return
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for process in _processes(session):
        with suppress(OSError):  # it has ended meanwhile
            for thread in (_PROCESSES / str(process) / "task").iterdir():
                with suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, int(thread.name), own)


def end_session(session: int) -> None:
    """End what a killed process has left behind in its session: a JVM takes seconds to see that
    nobody needs it any more, and takes them from the replicas that answer."""
    for process in _processes(session):
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)


def _processes(session: int) -> list[int]:
    """The processes of a session, on systems that list them as files."""
    found = []
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if os.getsid(int(process.name)) == session:
                found.append(int(process.name))
    return found


def _share(session: int, nice: int) -> None:
    """Set the nice value of a session as a whole, where the system has autogroups."""
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
