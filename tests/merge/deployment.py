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
from thalweg.testing import oracle

QUERY = """
import thalweg as tw
from thalweg import spark

events = spark.from_files({folder!r}, time="ts", disorder={disorder}, late="drop", name="events")
query = events{where}.group_by("k").hopping({size}, {hop}).aggregate(n=tw.count(), s=tw.sum_("v"))
"""


def switched(said: dict[str, object], rows: list[Row], coming: list[Row]) -> list[Row]:
    """Rows that start before the switch, and those of another query from there on."""
    t = said["switched_at"]
    assert isinstance(t, int)
    both = [row for row in rows if row[0] < t] + [row for row in coming if row[0] >= t]
    return sorted(both, key=lambda row: (row[0], row[1], str(row[2])))


class Deployment:
    """A query under `thalweg ha`, and its input. Windows are `size` by `hop` units of so many
    ticks; rows of a file lie within 40 units, and 30 after those of the file before."""

    def __init__(self, folder: Path, *, unit: int = 1, size: int = 10, hop: int = 10) -> None:
        self.folder, self.place = folder, HaFolder(folder / "ha")
        self.unit, self.size, self.hop = unit, size * unit, hop * unit
        self.disorder = 40 * unit  # no row is late
        (folder / "in").mkdir()
        self.files = 0
        self.patience = 1_200
        """Twentieths of a second."""
        self.rows: list[tuple[int, str, int]] = []
        self.write("old.py")
        self.arrive(3)

    def write(self, name: str, where: str = "") -> None:
        text = QUERY.format(
            folder=str(self.folder / "in"),
            where=where,
            disorder=self.disorder,
            size=self.size,
            hop=self.hop,
        )
        (self.folder / name).write_text(text, encoding="utf-8")

    def arrive(self, files: int) -> None:
        """More files of input, each with some disorder."""
        for _ in range(files):
            base = self.files * 30
            rows = [((base + (at * 7) % 40) * self.unit, "abc"[at % 3], at) for at in range(30)]
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
        """Whether the merge has promised all that the files allow: the start of the earliest window
        that is not closed."""
        said = self.place.status()
        promised = max(row[0] for row in self.rows) - self.disorder
        return said is not None and said["cti"] >= self.earliest(promised)

    def earliest(self, promised: int) -> int:
        return (promised - self.size) // self.hop * self.hop + self.hop

    def table(self) -> list[Row]:
        """What is final in the answer."""
        out = list(ElementLogReader(self.place.front / "out").read())
        assert first_violation_in_batches(out) is None
        said = self.place.status()
        assert said is not None
        rows = rows_of_table(table_of_batches(out, out[0].schema))
        return [row for row in rows if row[1] <= said["cti"]]

    def expected(self, where: str = "") -> list[Row]:
        """What the answer must be, by the definition."""
        source = tw.source("events", {"k": "string", "v": "int64"})
        stream = source if not where else source.where(where)
        query = stream.group_by("k").hopping(self.size, self.hop)
        node = query.aggregate(n=tw.count(), s=tw.sum_("v")).node
        said = self.place.status()
        assert said is not None
        rows = [(ts, ts + 1, {"k": k, "v": v}) for ts, k, v in self.rows]
        return [row for row in oracle(node, {"events": rows}) if row[1] <= said["cti"]]

    def run(self, *arguments: str, pace: float = 0.2) -> subprocess.CompletedProcess[str]:
        """A command about this deployment, while input goes on arriving: a file when those before
        are answered, at most one in `pace` seconds."""
        command = [*self.command(*arguments), "--folder", str(self.place.path)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            while child.poll() is None:
                if self.caught_up():
                    self.arrive(1)
                try:
                    child.wait(pace)
                except subprocess.TimeoutExpired:
                    continue
            out, errors = child.communicate()
        return subprocess.CompletedProcess(command, child.returncode, out, errors)
