"""A driver script that is killed again and again while its input arrives, and started again each
time."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.spark.jobs.processes import Job, driver
from tests.spark.jobs.streams import Arrivals, answers, expected

__all__ = ["assert_right", "begun", "commits", "kill_workers", "survive_kills"]


def survive_kills(arrivals: Arrivals, kills: int, random: Random, *arguments: str) -> int:
    """Kill the script `kills` times and then let it come to the end; how many kills hit a
    micro-batch. All processes die at once.

    In turn, a kill comes when a micro-batch was planned and nothing else, some time later while
    micro-batches run (twice), and anywhere, also before the script has started anything.
    """
    folder = arrivals.folder
    hits = 0
    for kill in range(kills):
        most = arrivals.left - arrivals.left // (kills - kill + 1)

        def feed(most: int = most) -> None:
            if arrivals.left > most and random.random() < 0.3:
                arrivals.arrive_somewhere(random)

        with driver(folder, *arguments) as job:
            planned, done = begun(folder), commits(folder)
            if kill % 4 == 3:
                _go_on(job, random.randrange(200), feed)
            else:
                for name in arrivals.read:
                    arrivals.arrive(name)
                job.until(
                    lambda planned=planned: begun(folder) > planned,  # type: ignore[misc]
                    "a micro-batch was planned",
                    each=feed,
                )
                if kill % 4:
                    job.until(
                        lambda done=done: commits(folder) > done,  # type: ignore[misc]
                        "a micro-batch was done",
                        each=feed,
                    )
                    _go_on(job, random.randrange(40), feed)
                    assert not job.tick(random.random() / 2)
            job.kill()
            hits += (begun(folder), commits(folder)) != (planned, done) and begun(folder) > commits(
                folder
            )
    arrivals.arrive_all()
    with driver(folder, "--trigger", "available now", *arguments) as job:
        assert job.end(limit=1800) == 0  # what was left over from all the kills
    return hits


def _go_on(job: Job, ticks: int, feed: Callable[[], None]) -> None:
    for _ in range(ticks):
        assert not job.tick(), "the job ended by itself"
        feed()


def kill_workers(job: Job, arrivals: Arrivals, times: int) -> None:
    """Kill the workers in the middle of a micro-batch: they are held until it has begun. After each
    time the query must go on."""
    folder = arrivals.folder
    for _ in range(times):
        known = commits(folder)
        job.until(lambda: bool(job.workers()), "there was a worker")
        victims = job.workers()
        for victim in victims:
            job.send(victim, signal.SIGSTOP)
        arrivals.arrive("events")
        job.until(lambda: begun(folder) > known, "a micro-batch began")  # noqa: B023
        for _ in range(10):
            assert not job.tick()
        for victim in victims:
            job.send(victim, signal.SIGKILL)
        job.until(lambda: commits(folder) > known, "the query went on")  # noqa: B023
    assert "worker exited unexpectedly" in job.log.read_text(errors="replace"), "no task was hit"


def begun(folder: Path) -> int:
    """How many micro-batches of all queries were planned."""
    return sum(1 for path in (folder / "checkpoints").glob("*/offsets/*") if path.name.isdigit())


def commits(folder: Path) -> int:
    """How many micro-batches of all queries are done."""
    return sum(1 for path in (folder / "checkpoints").glob("*/commits/*") if path.name.isdigit())


def assert_right(folder: Path, name: str) -> None:
    """No row of the final table is lost, doubled or other than it should be."""
    assert answers(folder, name) == expected(folder, name)
