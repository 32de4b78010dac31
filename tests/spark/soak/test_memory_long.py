"""At full speed for minutes, memory stays where it was."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.spark.jobs.processes import Job, driver
from tests.spark.soak.test_overload_long import resident

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

WARM_S = 120.0
"""A JVM loads and compiles classes, and windows fill, for so long."""
ABOUT = 6
"""Samples whose median is compared: half a minute."""
Sample = dict[str, Any]


def sample(job: Job, folder: Path) -> Sample | None:
    """What the driver wrote last, with the resident memory of its JVM and its largest worker."""
    file = folder / "memory"
    lines = file.read_text().splitlines() if file.exists() else []
    if not lines:
        return None
    jvms = [one.pid for one in job.members() if one.command.split()[0].endswith("java")]
    workers = [one.pid for one in job.workers()]
    found: Sample = json.loads(lines[-1])
    return found | {"lines": len(lines), "jvm": resident(*jvms), "workers": resident(*workers)}


def samples_of(folder: Path, seconds: float) -> list[tuple[float, Sample]]:
    """Samples with their times since the first micro-batch, for so long."""
    found: list[tuple[float, Sample]] = []
    with driver(folder, script="full_speed.py") as job:
        job.until(lambda: (sample(job, folder) or {}).get("batches", 0) > 0, "a micro-batch")
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            assert not job.tick(1.0), f"the query ended: {job.said()}"
            newest = sample(job, folder)
            if newest is not None and (not found or newest["lines"] > found[-1][1]["lines"]):
                found.append((time.monotonic() - began, newest))
    return found


def grown(found: list[tuple[float, Sample]], of: str, warm_s: float) -> float:
    """Memory at the end over that after the warm-up."""
    after = [taken[of] for at, taken in found if at >= warm_s]
    middle: Callable[[list[float]], float] = median
    return middle(after[-ABOUT:]) / middle(after[:ABOUT])


@pytest.mark.parametrize("seconds", [300, 600])
def test_memory_at_full_speed(tmp_path: Path, seconds: int) -> None:
    """From minute 2 on: the JVM and its live heap, and the largest worker, grow by less than a
    tenth, while micro-batches go on."""
    found = samples_of(tmp_path, seconds)
    assert found[-1][1]["batches"] > found[len(found) // 2][1]["batches"] > 20
    growth = {of: grown(found, of, WARM_S) for of in ("jvm", "heap", "workers")}
    sys.stderr.write(f"\n{json.dumps(growth)}\n")
    assert max(growth.values()) < 1.1, growth
