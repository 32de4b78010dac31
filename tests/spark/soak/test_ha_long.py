"""High availability with replicas that are Spark applications: they and the merge in front of them
are killed with SIGKILL while input arrives, up to two replicas at once, and a fresh one is attached.

No row is lost or repeated, and no output breaks a promise. The longest pause between two promises of
the answer is written down beside that of a run without kills, and beside that of one query that is
restarted from its checkpoint: `pauses.json` in the test's folder, and on the terminal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.merge.deployment import Deployment
from thalweg.io.element_log import ElementLogReader
from thalweg.model.time import MIN_TIME

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL"),
]

KILLS = int(os.environ.get("THALWEG_KILLS", "20"))
FRONT_KILLS = max(1, KILLS // 4)


def pauses(log: Path, begin: int = 0) -> list[float]:
    """Seconds between two files of a log that promise more, from a file on."""
    times: list[float] = []
    reader, promised = ElementLogReader(log), MIN_TIME
    for number, batch in enumerate(reader.read()):
        if batch.progress.cti > promised:
            promised = batch.progress.cti
            if number >= begin:
                times.append((log / f"{number:012d}.arrow").stat().st_mtime)
    return [later - earlier for earlier, later in pairwise(times)]


def healthy(made: Deployment) -> list[str]:
    """The replicas that are as far as the answer."""
    said = made.place.status() or {"inputs": {}, "cti": 0}
    alive = {r.name for r in made.place.supervised().replicas if r.pid is not None}
    return [n for n, each in said["inputs"].items() if n in alive and each["cti"] >= said["cti"]]


def kill(made: Deployment, names: list[str]) -> None:
    for replica in made.place.supervised().replicas:
        if replica.name in names and replica.pid is not None:
            os.kill(replica.pid, signal.SIGKILL)


def step(made: Deployment) -> None:
    """One more file, and its answer."""
    made.arrive(1)
    made.until(made.caught_up)


def test_replicas_on_spark_and_the_merge_are_killed(tmp_path: Path) -> None:
    random = Random(12)
    made = Deployment(tmp_path)
    made.patience = 12_000
    made.start(3, on_spark=True)
    killed = front = 0
    fresh = False
    try:
        made.until(made.caught_up)
        made.until(lambda: len(healthy(made)) == 3)
        begin = len(list((made.place.front / "out").glob("*.arrow")))
        for _ in range(8):
            step(made)
        quiet = max(pauses(made.place.front / "out", begin))
        begin = len(list((made.place.front / "out").glob("*.arrow")))
        while killed < KILLS or front < FRONT_KILLS or not fresh:
            candidates = healthy(made)
            if killed < KILLS and len(candidates) >= 2:
                victims = random.sample(candidates, random.randint(1, min(2, len(candidates) - 1)))
                kill(made, victims)
                killed += len(victims)
            elif front < FRONT_KILLS and front * 4 <= killed:
                os.kill(made.place.supervised().front_pid or 0, signal.SIGKILL)
                front += 1
            elif not fresh and killed >= KILLS // 2:
                made.place.ask({"start": str(tmp_path / "old.py"), "n": 1, "candidate": False})
                fresh = True
            step(made)
        made.until(lambda: len(healthy(made)) == 4)
        step(made)
        assert made.table() == made.expected()
        assert len(made.place.supervised().replicas) == 4
        figures = {
            "kills": killed,
            "kills of the merge": front,
            "longest pause without kills, s": round(quiet, 2),
            "longest pause with kills, s": round(max(pauses(made.place.front / "out", begin)), 2),
        }
    finally:
        made.child.terminate()
        made.child.wait()
    figures["longest pause of one query with restarts, s"] = round(alone(tmp_path / "one"), 2)
    (tmp_path / "pauses.json").write_text(json.dumps(figures), encoding="utf-8")
    sys.stderr.write(f"\n{json.dumps(figures)}\n")


def alone(folder: Path) -> float:
    """The longest pause of one query that is killed and restarted from its checkpoint."""
    folder.mkdir()
    made = Deployment(folder)
    made.patience = 12_000
    made.start(1, on_spark=True)
    try:
        made.until(made.caught_up)
        begin = len(list((made.place.front / "out").glob("*.arrow")))
        for _ in range(2):
            step(made)
            kill(made, healthy(made))
        step(made)
        assert made.table() == made.expected()
        return max(pauses(made.place.front / "out", begin))
    finally:
        made.child.terminate()
        made.child.wait()
