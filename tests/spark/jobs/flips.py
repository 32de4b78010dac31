"""A checkpoint with one bit changed: the query either says so or gives exactly the right answers.

The checkpoint is put back in its place for each flip, since Spark writes absolute paths into it. A
restart without a flip comes first and last: an error counts only while an unharmed checkpoint still
gives the right answers.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.spark.jobs.streams import CONSISTENCY, Arrivals, answers, expected, query
from thalweg import spark as ts
from thalweg.errors import ThalwegError

__all__ = ["Flips", "kind_of"]

_TOP = {"offsets": "offsets", "commits": "commits", "metadata": "metadata"}
_ENDINGS = {
    ".changelog": "state change log",
    ".zip": "state snapshot",
    ".sst": "state table",
    ".files": "our log of files",
}
_NAMES = {
    "record.jsonl": "our record",
    "reports.json": "our reports",
    "promises.json": "our promises",
}


def kind_of(path: Path) -> str:
    """What a file of a checkpoint is, by its path within it."""
    if path.name.startswith("."):
        return "checksum of Hadoop"
    if path.suffix == ".crc":
        return "checksum of the state"
    if "_metadata" in path.parts[:3]:
        return "state metadata"
    if "_stateSchema" in path.parts:
        return "state schema"
    return _TOP.get(path.parts[0]) or _ENDINGS.get(path.suffix) or _NAMES.get(path.name, "other")


@dataclass
class Flips:
    """One query that ran for a few micro-batches, and then more input. `pending` leaves its last
    micro-batch unfinished."""

    arrivals: Arrivals
    name: str
    pending: bool = False
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        folder = self.arrivals.folder
        self._checkpoint = folder / "checkpoints" / self.name
        self._kept = folder / "kept"
        for name in ("events", "rates"):
            self.arrivals.arrive(name, 3)
        self._run(finish=False)
        if self.pending:
            self._leave_unfinished()
        for name in ("checkpoints", "answers"):
            shutil.copytree(folder / name, self._kept / name)
        self.arrivals.arrive_all()
        self._expected = expected(folder, self.name)
        files = [
            path.relative_to(self._checkpoint)
            for path in sorted(self._checkpoint.rglob("*"))
            if path.is_file()
        ]
        self.files: dict[str, list[Path]] = {}
        for path in files:
            if (self._checkpoint / path).stat().st_size:
                self.files.setdefault(kind_of(path), []).append(path)

    def _leave_unfinished(self) -> None:
        """As if killed when the offsets of the last micro-batch were written, and nothing else of
        it."""
        last = max(
            int(path.name)
            for path in (self._checkpoint / "offsets").iterdir()
            if path.name.isdigit()
        )
        (self._checkpoint / "commits" / f"{last}").unlink()
        record = self._checkpoint / "thalweg" / "record.jsonl"
        record.write_text("".join(record.read_text().splitlines(keepends=True)[:-1]))
        shutil.rmtree(self.arrivals.folder / "answers" / self.name / f"batch={last}")

    def _run(self, *, finish: bool) -> None:
        folder = self.arrivals.folder
        ts.start(
            query(folder, self.name, finish=finish),
            to="parquet",
            path=str(folder / "answers" / self.name),
            checkpoint=str(self._checkpoint),
            consistency=CONSISTENCY[self.name],
            trigger="available now",
            buckets=2,
        ).wait()

    def _restart(self) -> str:
        try:
            self._run(finish=True)
        except ThalwegError as reason:
            return f"error: {reason}"
        return "right" if answers(self.arrivals.folder, self.name) == self._expected else "wrong"

    def _put_back(self) -> None:
        for name in ("checkpoints", "answers"):
            shutil.rmtree(self.arrivals.folder / name)
            shutil.copytree(self._kept / name, self.arrivals.folder / name)

    def assert_unharmed_is_right(self) -> None:
        self._put_back()
        outcome = self._restart()
        assert outcome == "right", outcome

    def flip(self, kind: str, random: Random) -> str:
        """Change one bit of one file of a kind and restart; what came of it."""
        self._put_back()
        newest = max(
            self.files[kind], key=lambda path: (self._checkpoint / path).stat().st_mtime_ns
        )
        path = random.choice([newest, random.choice(self.files[kind])])
        content = bytearray((self._checkpoint / path).read_bytes())
        bit = random.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        (self._checkpoint / path).write_bytes(content)
        outcome = self._restart()
        self.outcomes[kind, outcome.partition(":")[0]] += 1
        if outcome == "wrong":
            self.wrong.append(f"bit {bit} of {path}")
        return outcome

    def run(self, count: int, random: Random) -> None:
        """`count` flips, spread over all kinds of files; none may give a wrong answer."""
        self.assert_unharmed_is_right()
        kinds = sorted(self.files)
        for number in range(count):
            self.flip(kinds[number % len(kinds)], random)
        assert not self.wrong
        self.assert_unharmed_is_right()
