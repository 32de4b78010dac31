"""A merge of element logs that survives kill -9.

    plans/      one file a batch of the merge: which batches of which logs it takes, in order, and
                which inputs join and leave before it
    out/        the log of its own output
    snapshots/  the state after a batch

The plan of a batch is written before the batch is worked on. So a merge that is killed at any point
makes the same batches again from its last snapshot, and what is in the output log stays as it is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from thalweg.errors import StateError
from thalweg.io.element_log import ElementLog, ElementLogReader, written_whole
from thalweg.merging.merger import Merger, MergeStatus
from thalweg.model.batch import Batch
from thalweg.operators.base import Slices

__all__ = ["LoggedMerge"]

_SNAPSHOTS_KEPT = 2


class LoggedMerge:
    """A `Merger` whose inputs and output are element logs.

    `inputs` maps names to folders; an input may join with a time (`since`) and leave at any step.
    """

    def __init__(self, folder: Path, merger: Merger, *, snapshot_every: int = 5) -> None:
        self._folder, self._merger, self._every = folder, merger, snapshot_every
        for name in ("plans", "snapshots"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._log = ElementLog(folder / "out", run="merge")
        self._readers: dict[str, ElementLogReader] = {}
        self._done = 0
        self._restore()
        while (plan := self._plan(self._done)) is not None:  # batches that were begun
            self._work(plan)

    @property
    def out(self) -> Path:
        """The folder of the output's log."""
        return self._folder / "out"

    def status(self) -> MergeStatus:
        return self._merger.status()

    def step(
        self,
        *,
        attach: Mapping[str, tuple[Path, int | None]] | None = None,
        detach: tuple[str, ...] = (),
        most: int = 4,
    ) -> int:
        """One batch of the merge: inputs leave and join, then of every log what is there, up to
        `most` batches each. Returns how many batches of the inputs were taken."""
        joining = {} if attach is None else attach
        readers = {name: self._readers[name] for name in self._readers if name not in detach}
        taken = {name: min(most, reader.available()) for name, reader in readers.items()}
        for name, (folder, _) in joining.items():
            taken[name] = min(most, ElementLogReader(folder).available())
        if not any(taken.values()) and not joining and not detach:
            return 0
        plan = {
            "detach": list(detach),
            "attach": [[name, str(path), since] for name, (path, since) in joining.items()],
            "take": [[name, count] for name, count in taken.items() if count],
        }
        written_whole(self._plan_path(self._done), json.dumps(plan).encode())
        self._work(plan)
        return sum(taken.values())

    def _work(self, plan: dict[str, Any]) -> None:
        out: list[Batch] = []
        for name in plan["detach"]:
            del self._readers[name]
            out += self._merger.detach(name)
        for name, folder, since in plan["attach"]:
            self._readers[name] = ElementLogReader(Path(folder))
            self._merger.attach(name, since)
        for name, count in plan["take"]:
            for _ in range(count):
                out += self._merger.push(name, self._readers[name].take())
        self._log.write(self._done, Batch.concat(out, self._merger.schema))
        self._done += 1
        if self._done % self._every == 0:
            self._snapshot()

    def _plan_path(self, number: int) -> Path:
        return self._folder / "plans" / f"{number:012d}.json"

    def _plan(self, number: int) -> dict[str, Any] | None:
        path = self._plan_path(number)
        return json.loads(path.read_bytes()) if path.exists() else None

    # ------------------------------------------------------------------------------------------
    # snapshots

    def _snapshot(self) -> None:
        readers = [
            [name, str(reader.folder), reader.position, reader.run]
            for name, reader in self._readers.items()
        ]
        state = {name: _text(rows) for name, rows in self._merger.snapshot().items()}
        text = json.dumps({"done": self._done, "readers": readers, "state": state})
        written_whole(self._folder / "snapshots" / f"{self._done:012d}.json", text.encode())
        for old in self._snapshots()[:-_SNAPSHOTS_KEPT]:
            old.unlink()

    def _snapshots(self) -> list[Path]:
        return sorted((self._folder / "snapshots").glob("[0-9]*.json"))

    def _restore(self) -> None:
        found = self._snapshots()
        if not found:
            return
        saved = json.loads(found[-1].read_bytes())
        if saved["done"] > self._log.next:
            raise StateError(f"{found[-1]}: the output log ends before this snapshot.")
        self._done = saved["done"]
        for name, folder, position, run in saved["readers"]:
            self._readers[name] = ElementLogReader(Path(folder), position, run)
        state: Slices = {name: _rows(text) for name, text in saved["state"].items()}
        self._merger.restore(state)


def _text(rows: pa.RecordBatch) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def _rows(text: str) -> pa.RecordBatch:
    return pa.ipc.open_stream(base64.b64decode(text)).read_next_batch()
