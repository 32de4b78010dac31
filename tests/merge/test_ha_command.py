"""`thalweg ha` and `thalweg cutover` with real processes, which are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.merge.deployment import Deployment, switched
from thalweg.cli.ha_requests import Start
from thalweg.io.element_log import ElementLogReader


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path)
    made.start()
    yield made
    made.child.terminate()
    made.child.wait()
    last = json.loads((tmp_path / "tables.jsonl").read_text("utf-8").splitlines()[-1])
    assert last["replicas"] and last["cti"] > 0


def test_kills_and_a_cutover_to_a_query_with_a_mended_bug(running: Deployment) -> None:
    running.until(running.caught_up)
    known = running.until(running.place.supervised)
    for victim in (known.replicas[0].pid, known.front_pid):
        os.kill(victim, signal.SIGKILL)
        running.arrive(1)
        running.until(running.caught_up)
    assert running.table() == running.expected()
    running.until(lambda: running.place.supervised().replicas[0].restarts == 1)
    # A second merge takes over at once, so answers go on before the supervisor counts a restart.
    running.until(lambda: running.place.supervised().front_restarts == 1)

    running.write("new.py", where=".where('v > 3')")
    command = running.command(
        "cutover", str(running.folder / "old.py"), str(running.folder / "new.py")
    )
    done = subprocess.run(
        [*command, "--folder", str(running.place.path), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["case"] == "different" and said["differences"] > 0
    running.arrive(2)
    running.until(running.caught_up)
    t = said["switched_at"]
    before = [row for row in running.expected() if row[0] < t]
    after = [row for row in running.expected("v > 3") if row[0] >= t]
    assert after and running.table() == sorted(
        before + after, key=lambda r: (r[0], r[1], str(r[2]))
    )
    assert [Path(r.file).name for r in running.place.supervised().replicas] == ["new.py"]

    refused = subprocess.run(
        [*command, "--folder", str(running.place.path)], capture_output=True, text=True, check=False
    )
    assert "old.py is not what runs there; new.py is" in refused.stderr


def fall_behind(made: Deployment, number: int) -> None:
    """A replica is stopped while the others go on. What was settled meanwhile it leaves out, so
    that its log is not the history of the query."""
    pid = made.place.supervised().replicas[number].pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    made.arrive(12)
    made.until(made.caught_up)
    os.kill(pid, signal.SIGCONT)


def test_a_ten_minute_window_is_replaced_under_load_by_another_plan_a_mended_one_and_back(
    tmp_path: Path,
) -> None:
    """Ten minutes by one, in units of 20 seconds. Every answer is compared with the oracle."""
    made = Deployment(tmp_path, unit=20_000_000, size=30, hop=3)
    made.write("plan.py", where=".where('v >= 0')")
    made.write("mended.py", where=".where('v > 3')")
    made.start()
    old, plan, mended = (str(tmp_path / f"{name}.py") for name in ("old", "plan", "mended"))
    try:
        made.until(made.caught_up)
        fall_behind(made, 0)
        refused = made.run("cutover", old, mended, "--equivalent", "--json")
        assert refused.returncode and "are not equivalent. NEW was stopped" in refused.stderr
        same = made.run("cutover", old, plan, "--equivalent", "--json")
        assert same.returncode == 0, same.stderr
        assert json.loads(same.stdout)["case"] == "equivalent"
        made.until(made.caught_up)
        assert made.table() == made.expected()

        done = made.run("cutover", plan, mended, "--json")
        assert done.returncode == 0, done.stderr
        first = json.loads(done.stdout)
        assert first["case"] == "different" and first["differences"] > 0
        made.until(made.caught_up)
        assert made.table() == switched(first, made.expected(), made.expected("v > 3"))

        back = made.run("cutover", plan, mended, "--back", "--json")
        assert back.returncode == 0, back.stderr
        second = json.loads(back.stdout)
        made.until(made.caught_up)
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


def test_a_replica_that_joins_late_leaves_out_what_is_settled(running: Deployment) -> None:
    running.arrive(20)
    running.until(running.caught_up)
    running.place.ask(Start(str(running.folder / "old.py"), 1))
    [fresh] = running.until(
        lambda: [r for r in running.place.supervised().replicas if r.name == "old-2"]
    )
    running.until(lambda: fresh.name in (running.place.status() or {"inputs": ()})["inputs"])
    running.arrive(2)
    running.until(running.caught_up)
    cti = running.place.status()["cti"]  # type: ignore[index]
    running.until(
        lambda: running.place.status()["inputs"][fresh.name]["cti"] >= cti  # type: ignore[index]
    )
    sent = sum(len(batch) for batch in ElementLogReader(running.place.log(fresh.name)).read())
    assert running.table() == running.expected()
    assert sent < len(running.table()) / 2  # 20 of 25 files were settled when it began
