"""Processes that start give way to others, and run as they do once they have started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from thalweg.cli.priority import lower_priority, may_raise_priority, restore_priority

CHILD = """
import os, subprocess, sys
sys.stdin.readline()
inner = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"],
                         stdin=subprocess.PIPE, process_group=0)
print(inner.pid, flush=True)
sys.stdin.readline()
inner.communicate()
"""


def priority(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def session_share(pid: int) -> str:
    """How the session of a process is treated beside others."""
    file = Path(f"/proc/{pid}/autogroup")
    return file.read_text("ascii").partition("nice")[2] if file.exists() else ""


@pytest.mark.skipif(not may_raise_priority(), reason="this user may not raise a priority")
@pytest.mark.skipif(priority(0) > 14, reason="these tests give way to everything already")
def test_a_process_and_what_it_starts_give_way_until_they_are_let_run() -> None:
    own = priority(0)
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        lower_priority(child.pid)
        child.stdin.write("\n")
        child.stdin.flush()
        inner = int(child.stdout.readline())
        assert priority(child.pid) > own and priority(inner) > own
        lowered = session_share(child.pid)
        restore_priority(child.pid)
        assert not lowered or lowered != session_share(child.pid) == " 0\n"
        assert priority(child.pid) == priority(inner) == own == priority(0)
        child.stdin.write("\n")
