"""`thalweg ha` and `thalweg cutover` with real processes, which are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.merge.deployment import Deployment


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
    again = running.until(
        lambda: running.place.supervised().replicas[0].restarts and running.place.supervised()
    )
    assert again.front_restarts == 1

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
