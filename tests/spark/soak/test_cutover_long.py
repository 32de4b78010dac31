"""A query on Spark that is replaced while it runs: by another plan, by one with a mended bug, and
back.

Ten-minute windows by one minute, replicas that are Spark applications, input that goes on arriving.
The answer is compared with the definition after each cutover, no output breaks a promise, and no
replica makes more than two micro-batches with a promise between two promises of the answer around
the switch. Micro-batches without one do not count: a promise comes with the third file, and how
many files a micro-batch takes depends on how quick it is.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.merge.deployment import Deployment, switched
from thalweg.io.element_log import ElementLogReader
from thalweg.model.time import MIN_TIME

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
]

PACE_S = 0.5
"""Seconds between two files."""


def promises(log: Path) -> list[float]:
    """When the files of a log were written that promise more than those before."""
    times, promised = [], MIN_TIME
    for number, batch in enumerate(ElementLogReader(log).read()):
        if batch.progress.cti > promised:
            promised = batch.progress.cti
            times.append(written(log / f"{number:012d}.arrow"))
    return times


def written(path: Path) -> float:
    return path.stat().st_mtime


def pause(made: Deployment, since: float) -> tuple[int, float]:
    """From a time until five promises later: the most micro-batches with a promise of one replica
    between two promises of the answer, and the longest time between two of them."""
    gaps = [gap for gap in pairwise(promises(made.place.front / "out")) if gap[1] >= since][:5]
    logs = [promises(folder / "log") for folder in (made.place.path / "replicas").iterdir()]
    most = max(sum(begin < at < end for at in log) for log in logs for begin, end in gaps)
    return most, max(end - begin for begin, end in gaps)


class Replaced:
    """A deployment whose query is replaced by commands, and what that cost."""

    def __init__(self, made: Deployment) -> None:
        self.made = made
        self.pauses: dict[str, tuple[int, float]] = {}

    def cut_over(self, what: str, *arguments: str) -> dict[str, Any]:
        done = self.made.run("cutover", *arguments, "--json", pace=PACE_S)
        assert done.returncode == 0, done.stderr
        entries = sorted(self.made.place.registry.folder.glob("[0-9]*.json"))
        for _ in range(6):
            self.made.arrive(1)
            self.made.until(self.made.caught_up)
        self.pauses[what] = pause(self.made, written(entries[-1]))
        said: dict[str, Any] = json.loads(done.stdout)
        return said


def test_a_query_on_spark_is_replaced_under_load(tmp_path: Path) -> None:
    made = Deployment(tmp_path, unit=20_000_000, size=30, hop=3)
    made.patience = 6_000
    made.write("plan.py", where=".where('v >= 0')")
    made.write("mended.py", where=".where('v > 3')")
    old, plan, mended = (str(tmp_path / f"{name}.py") for name in ("old", "plan", "mended"))
    made.start(1, on_spark=True)
    try:
        made.until(made.caught_up)
        replaced = Replaced(made)
        same = replaced.cut_over("another plan", old, plan, "--equivalent")
        assert same["case"] == "equivalent"
        assert made.table() == made.expected()

        first = replaced.cut_over("a mended bug", plan, mended)
        assert first["case"] == "different" and first["differences"] > 0
        mended_table = switched(first, made.expected(), made.expected("v > 3"))
        assert made.table() == mended_table

        second = replaced.cut_over("back", plan, mended, "--back")
        enough = second["switched_at"] + made.size
        while made.place.status()["cti"] <= enough:  # type: ignore[index]
            made.arrive(1)
            made.until(made.caught_up)
        before = switched(first, made.expected(), made.expected("v > 3"))
        assert made.table() == switched(second, before, made.expected())
        assert {Path(r.file).name for r in made.place.supervised().replicas} == {"plan.py"}
    finally:
        made.child.terminate()
        made.child.wait()
    sys.stderr.write(f"\n{json.dumps(replaced.pauses)}\n")
    assert max(batches for batches, _ in replaced.pauses.values()) <= 2
