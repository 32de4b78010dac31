"""A query under `thalweg ha` with real processes, and its input; for tests that kill them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

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
        self.patience = 1_200
        """Twentieths of a second."""
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

    def start(self, replicas: int = 2, *, on_spark: bool = False) -> None:
        options = ["-n", str(replicas), "--folder", str(self.place.path), "--json"]
        options += ["--every", "0.2"] if on_spark else ["--every", "0.2", "--in-process"]
        with (self.folder / "tables.jsonl").open("wb") as tables:
            self.child = subprocess.Popen(
                self.command("ha", str(self.folder / "old.py"), *options), stdout=tables
            )

    def until(self, holds: Callable[[], Any]) -> Any:
        """Look until something holds; the supervisor must not end meanwhile."""
        for _ in range(self.patience):
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
