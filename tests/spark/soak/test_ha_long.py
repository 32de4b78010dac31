"""High availability with replicas that are Spark applications: they and the merge in front of them
are killed with SIGKILL while input arrives, up to two replicas at once, and a fresh one is attached.

No row is lost or repeated, no output breaks a promise, and answers go on while the replicas that were
killed start again. The longest pause between two promises of the answer is written down beside that
of a run without kills, and beside that of one query that is restarted from its checkpoint:
`pauses.json` in the test's folder, and on the terminal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
WITHOUT_KILLS = 10 + 2 * KILLS
"""Answers of the run without kills; about as many as come with them."""


def pauses(log: Path, begin: int = 0) -> list[tuple[float, float]]:
    """From a file of a log on: the seconds between two files that promise more, and when the first
    of the two was written."""
    times: list[float] = []
    reader, promised = ElementLogReader(log), MIN_TIME
    for number, batch in enumerate(reader.read()):
        if batch.progress.cti > promised:
            promised = batch.progress.cti
            if number >= begin:
                times.append((log / f"{number:012d}.arrow").stat().st_mtime)
    return [(later - earlier, earlier) for earlier, later in pairwise(times)]


class Running(Deployment):
    """A deployment on Spark whose processes are killed."""

    @property
    def log(self) -> Path:
        return self.place.front / "out"

    @property
    def answers(self) -> int:
        """Files of the answer's log."""
        return len(list(self.log.glob("*.arrow")))

    def promises(self) -> dict[str, int]:
        """By replica that runs: what it has promised."""
        said = self.place.status() or {"inputs": {}}
        alive = {r.name for r in self.place.supervised().replicas if r.pid is not None}
        return {name: each["cti"] for name, each in said["inputs"].items() if name in alive}

    def healthy(self) -> list[str]:
        """The replicas that run, and are at most 20 files behind the answer."""
        near = (self.place.status() or {"cti": 0})["cti"] - 20 * 30 * self.unit
        return [name for name, promised in self.promises().items() if promised >= near]

    def kill(self, names: list[str]) -> None:
        for replica in self.place.supervised().replicas:
            if replica.name in names and replica.pid is not None:
                os.kill(replica.pid, signal.SIGKILL)

    def kill_merge(self) -> None:
        os.kill(self.place.supervised().front_pid or 0, signal.SIGKILL)

    def step(self) -> None:
        """One more file, and its answer."""
        self.arrive(1)
        self.until(self.caught_up)


@contextmanager
def running(folder: Path, replicas: int) -> Iterator[Running]:
    made = Running(folder)
    made.patience = 12_000
    made.start(replicas, on_spark=True)
    try:
        made.until(made.caught_up)
        while len(made.healthy()) < replicas:
            made.step()
        yield made
    finally:
        made.child.terminate()
        made.child.wait()


def test_replicas_on_spark_and_the_merge_are_killed(tmp_path: Path) -> None:
    random = Random(12)
    killed = merge_kills = 0
    fresh = False
    away: dict[str, tuple[int, int]] = {}
    """By replica that was killed: what it had promised, and how many answers there were then."""
    without: list[int] = []
    """Answers that came before a replica was back."""
    with running(tmp_path, 3) as made:
        begin = made.answers
        for _ in range(WITHOUT_KILLS):
            made.step()
        quiet = pauses(made.log, begin)
        begin = made.answers
        while killed < KILLS or merge_kills < FRONT_KILLS or not fresh or away:
            there = made.healthy()
            back = [name for name in away if made.promises().get(name, MIN_TIME) > away[name][0]]
            without += [made.answers - away.pop(name)[1] for name in back]
            candidates = [name for name in there if name not in away]
            if merge_kills < FRONT_KILLS and merge_kills * 4 <= killed:
                made.kill_merge()
                merge_kills += 1
            elif killed < KILLS and len(candidates) >= 2:
                most = min(2, len(candidates) - 1, KILLS - killed)
                victims = random.sample(candidates, random.randint(1, most))
                made.kill(victims)
                killed += len(victims)
                made.step()  # by then the merge knows how far each was
                away |= {name: (made.promises()[name], made.answers) for name in victims}
            elif not fresh and killed >= KILLS // 2:
                made.place.ask({"start": str(tmp_path / "old.py"), "n": 1, "candidate": False})
                fresh = True
            made.step()
        while len(made.healthy()) < 4:
            made.step()
        made.step()
        assert made.table() == made.expected()
        assert len(made.place.supervised().replicas) == 4
        assert min(without) > 1
        shaken = pauses(made.log, begin)
    (tmp_path / "one").mkdir()
    alone = pause_of_one(tmp_path / "one")
    figures = {
        "kills": killed,
        "kills of the merge": merge_kills,
        "answers without kills": len(quiet),
        "answers with kills": len(shaken),
        "fewest answers before a replica was back": min(without),
        "longest pause without kills, s": longest(quiet),
        "longest pause with kills, s": longest(shaken),
        "longest pause of one query with restarts, s": alone,
    }
    figures["ratio"] = round(longest(shaken) / longest(quiet), 2)
    (tmp_path / "pauses.json").write_text(json.dumps(figures), encoding="utf-8")
    sys.stderr.write(f"\n{json.dumps(figures)}\n")


def longest(found: list[tuple[float, float]]) -> float:
    return round(max(found)[0], 2)


def pause_of_one(folder: Path) -> float:
    """The longest pause of one query that is killed and restarted from its checkpoint."""
    with running(folder, 1) as made:
        begin = made.answers
        for _ in range(2):
            made.step()
            made.kill(made.healthy())
        made.step()
        assert made.table() == made.expected()
        return longest(pauses(made.log, begin))
