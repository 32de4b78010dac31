"""`thalweg ha` and `thalweg cutover` with real processes, which are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg.cli.ha_folder import HaFolder
from thalweg.io.element_log import ElementLogReader
from thalweg.model import Row, first_violation_in_batches, rows_of_table, table_of_batches

QUERY = """
import thalweg as tw
from thalweg import spark

events = spark.from_files({folder!r}, time="ts", disorder=20, late="drop", name="events")
query = events{where}.group_by("k").tumbling(10).aggregate(n=tw.count(), s=tw.sum_("v"))
"""
SOURCE = tw.source("events", {"k": "string", "v": "int64"}, disorder=20, late="drop")


class Deployment:
    """A query under `thalweg ha`, and its input."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place = folder, HaFolder(folder / "ha")
        (folder / "in").mkdir()
        self.files = 0
        self.rows: list[tuple[int, str, int]] = []
        self.write("old.py")
        self.arrive(3)

    def write(self, name: str, where: str = "") -> None:
        text = QUERY.format(folder=str(self.folder / "in"), where=where)
        (self.folder / name).write_text(text, encoding="utf-8")

    def arrive(self, files: int) -> None:
        """More files of input, each with some disorder."""
        for _ in range(files):
            base = self.files * 30
            rows = [(base + (at * 7) % 40, "abc"[at % 3], at) for at in range(30)]
            self.rows += rows
            columns = [pa.array(column) for column in zip(*rows, strict=True)]
            table = pa.Table.from_arrays(columns, names=["ts", "k", "v"])
            draft = self.folder / f"_{self.files:04d}.parquet"
            pq.write_table(table, draft)
            draft.rename(self.folder / "in" / f"{self.files:04d}.parquet")
            self.files += 1

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "thalweg", *arguments]

    def start(self) -> None:
        options = [
            "-n",
            "2",
            "--folder",
            str(self.place.path),
            "--in-process",
            "--json",
            "--every",
            "0.2",
        ]
        with (self.folder / "tables.jsonl").open("wb") as tables:
            self.child = subprocess.Popen(
                self.command("ha", str(self.folder / "old.py"), *options), stdout=tables
            )

    def until(self, holds: Callable[[], Any]) -> Any:
        """Look until something holds; the supervisor must not end meanwhile."""
        for _ in range(1200):
            found = holds()
            if found:
                return found
            try:
                self.child.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"thalweg ha ended: {self.errors()}")
        raise AssertionError(f"it never held; {self.place.status()} {self.errors()}")

    def errors(self) -> str:
        return "\n".join(p.read_text("utf-8") for p in self.place.path.rglob("errors.txt"))

    def caught_up(self) -> bool:
        """Whether the merge has promised all that the files allow."""
        said = self.place.status()
        newest = max(row[0] for row in self.rows)
        return said is not None and said["cti"] >= (newest - 20) // 10 * 10

    def table(self) -> list[Row]:
        """What is final in the answer."""
        out = list(ElementLogReader(self.place.front / "out").read())
        assert first_violation_in_batches(out) is None
        said = self.place.status()
        assert said is not None
        rows = rows_of_table(table_of_batches(out, out[0].schema))
        return [row for row in rows if row[1] <= said["cti"]]

    def expected(self, where: str = "") -> list[Row]:
        stream = SOURCE if not where else SOURCE.where(where)
        query = stream.group_by("k").tumbling(10).aggregate(n=tw.count(), s=tw.sum_("v"))
        said = self.place.status()
        assert said is not None
        rows = [tw.point({"k": k, "v": v}, ts) for ts, k, v in self.rows]
        return [row for row in tw.table(query, {"events": rows}) if row[1] <= said["cti"]]


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
