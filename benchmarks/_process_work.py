"""Processor time of a process and of all that it started, which a busy machine changes less than
the time on the clock."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path

__all__ = ["work_below", "work_by_role"]

_TICKS = os.sysconf("SC_CLK_TCK")


def work_below(root: int) -> dict[int, float]:
    """Processor seconds so far of a process and all that it started, by id."""
    children: dict[int, list[int]] = {}
    work: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
            work[int(stat.parent.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
    found, todo = {}, [root]
    while todo:
        process = todo.pop()
        found[process] = work.get(process, 0.0)
        todo += children.get(process, [])
    return found


def work_by_role(root: int) -> Counter[str]:
    """Processor seconds so far of a program that drives Spark: of the `driver` itself, of the `jvm`
    and of the Python processes that the JVM started (`workers`)."""
    total: Counter[str] = Counter()
    for process, seconds in work_below(root).items():
        total[_role(process, root)] += seconds  # type: ignore[assignment]
    return total


def _role(process: int, root: int) -> str:
    if process == root:
        return "driver"
    with contextlib.suppress(OSError):
        program = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0]
        return "jvm" if program.endswith(b"java") else "workers"
    return "workers"
