"""High availability with replicas that are Spark applications: they and the merge in front of them
are killed with SIGKILL while input arrives, up to two replicas at once, and a fresh one is
attached.

No row is lost or repeated, no output breaks a promise, and answers go on while the replicas that
were killed start again. Stretches with kills and without take turns in one run, so that whatever
else the machine does meets both. The longest pauses between two promises of the answer are written
down for both, and for one query that is restarted from its checkpoint: `pauses.json` in the test's
folder, and on the terminal. For each of the longest it says what was killed last before it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median

import pytest

from tests.merge.deployment import Deployment
from thalweg.cli.ha_requests import Start
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
STRETCHES = min(5, FRONT_KILLS)
"""How often stretches without kills and with them take turns."""
WITHOUT_KILLS = (10 + 2 * KILLS) // STRETCHES
"""Answers of a stretch without kills; about as many as come with them."""


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


class Stretches:
    """A run in which stretches without kills and with them take turns."""

    def __init__(self, made: Running) -> None:
        self.made, self._random = made, Random(12)
        self.kills: list[tuple[float, str]] = []
        """When what was killed."""
        self.killed = self.merge_kills = 0
        self.quiet: list[tuple[float, float]] = []
        self.shaken: list[tuple[float, float]] = []
        self._away: dict[str, tuple[int, int]] = {}
        """By replica that was killed: what it had promised, and how many answers there were
        then."""
        self.without: list[int] = []
        """Answers that came before a replica was back."""

    def without_kills(self) -> None:
        while len(self.made.healthy()) < len(self.made.place.supervised().replicas):
            self.made.step()
        begin = self.made.answers
        for _ in range(WITHOUT_KILLS):
            self.made.step()
        self.quiet += pauses(self.made.log, begin)

    def with_kills(self, kills: int, merge_kills: int) -> None:
        """Until so many replicas and merges were killed in all, and the replicas are back."""
        begin = self.made.answers
        while self.killed < kills or self.merge_kills < merge_kills or self._away:
            back = [
                name
                for name, (promised, _) in self._away.items()
                if self.made.promises().get(name, MIN_TIME) > promised
            ]
            self.without += [self.made.answers - self._away.pop(name)[1] for name in back]
            candidates = [name for name in self.made.healthy() if name not in self._away]
            if self.merge_kills < merge_kills:
                self._note("the merge")
                self.made.kill_merge()
                self.merge_kills += 1
            elif self.killed < kills and len(candidates) >= 2:
                most = min(2, len(candidates) - 1, kills - self.killed)
                victims = self._random.sample(candidates, self._random.randint(1, most))
                leader = (self.made.place.status() or {}).get("leader")
                self._note(", ".join(f"{v} (led)" if v == leader else v for v in victims))
                self.made.kill(victims)
                self.killed += len(victims)
                self.made.step()  # by then the merge knows how far each was
                promised = self.made.promises()
                self._away |= {name: (promised[name], self.made.answers) for name in victims}
            self.made.step()
        self.shaken += pauses(self.made.log, begin)

    def _note(self, what: str) -> None:
        self.kills.append((time.time(), what))

    def worst(self, count: int = 3) -> list[str]:
        """The longest pauses with kills, and what was killed last before the end of each."""
        found = []
        for length, begin in sorted(self.shaken, reverse=True)[:count]:
            before = [(at, what) for at, what in self.kills if at <= begin + length]
            at, what = before[-1] if before else (begin, "nothing")
            found.append(f"{length:.2f} s, begun {begin - at:+.1f} s after the kill of {what}")
        return found


def test_replicas_on_spark_and_the_merge_are_killed(tmp_path: Path) -> None:
    with running(tmp_path, 3) as made:
        run = Stretches(made)
        for stretch in range(1, STRETCHES + 1):
            run.without_kills()
            share = (KILLS * stretch // STRETCHES, FRONT_KILLS * stretch // STRETCHES)
            run.with_kills(*share)
            if stretch == (STRETCHES + 1) // 2:
                made.place.ask(Start(str(tmp_path / "old.py"), 1))
                made.until(lambda: len(made.place.supervised().replicas) == 4)
        while len(made.healthy()) < 4:
            made.step()
        made.step()
        assert made.table() == made.expected()
        assert len(made.place.supervised().replicas) == 4
        assert min(run.without) > 1
    (tmp_path / "one").mkdir()
    alone = pause_of_one(tmp_path / "one")
    figures = {
        "kills": run.killed,
        "kills of the merge": run.merge_kills,
        "answers without kills": len(run.quiet),
        "answers with kills": len(run.shaken),
        "fewest answers before a replica was back": min(run.without),
        "longest pause without kills, s": longest(run.quiet),
        "longest pause with kills, s": longest(run.shaken),
        "middle pause without kills, s": middle(run.quiet),
        "middle pause with kills, s": middle(run.shaken),
        "longest pause of one query with restarts, s": alone,
        "ratio": round(longest(run.shaken) / longest(run.quiet), 2),
        "longest with kills": run.worst(),
    }
    (tmp_path / "pauses.json").write_text(json.dumps(figures), encoding="utf-8")
    sys.stderr.write(f"\n{json.dumps(figures)}\n")


def middle(found: list[tuple[float, float]]) -> float:
    return round(median(length for length, _ in found), 2)


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
