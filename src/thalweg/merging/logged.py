"""A merge of element logs that survives kill -9.

    plans/      a file for each batch of the merge: which inputs join and leave before it, and
                which batches of which logs it takes, in order
    out/        the log of its output
    snapshots/  the state after every few batches

The plan of a batch is written before the batch is processed. So a merge that is killed at any point
repeats the same batches from its last snapshot, and the output log stays as it is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from thalweg.errors import PlanError, StateError
from thalweg.io.element_log import ElementLog, ElementLogReader
from thalweg.io.row_bytes import read_rows, write_rows
from thalweg.io.whole_files import write_whole
from thalweg.merging.merger import Merger, MergeStatus
from thalweg.merging.registry import Change, MergeEntry, MergeRegistry
from thalweg.merging.switched import SwitchedMerge
from thalweg.model.batch import Batch
from thalweg.model.rows import Rows
from thalweg.operators.base import Slices

__all__ = ["LoggedMerge"]

_SNAPSHOTS_KEPT = 2


class LoggedMerge:
    """A `Merger` whose inputs and output are element logs.

    Inputs join and leave as a `registry` says, or by arguments of `step`. With a `SwitchedMerge` in
    place of the merger, the registry may also replace the query by another one.
    """

    def __init__(
        self,
        folder: Path,
        merger: Merger | SwitchedMerge,
        *,
        registry: MergeRegistry | None = None,
        snapshot_every: int = 5,
    ) -> None:
        self._folder, self._merger, self._every = folder, merger, snapshot_every
        self._registry = registry
        for name in ("plans", "snapshots"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._log = ElementLog(folder / "out", run="merge")
        self._readers: dict[str, ElementLogReader] = {}
        self._done = 0
        self._entries = 0
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
        """Process one batch of the merge: inputs leave and join, then up to `most` batches of every
        log are taken. Returns how many batches were taken."""
        entries = [MergeEntry(name) for name in detach]
        joining = {} if attach is None else attach
        entries += [MergeEntry(name, str(path), since) for name, (path, since) in joining.items()]
        taken_entries = self._entries
        if self._registry is not None:
            new = self._registry.entries()[self._entries :]
            entries += new
            taken_entries += len(new)
        readers = self._readers_after(entries)
        counts = {name: min(most, reader.available()) for name, reader in readers.items()}
        if not any(counts.values()) and not entries:
            return 0
        plan = {
            "entries": [asdict(entry) for entry in entries],
            "registry": taken_entries,
            "take": [[name, count] for name, count in counts.items() if count],
        }
        write_whole(self._plan_path(self._done), json.dumps(plan).encode())
        self._work(plan)
        return sum(counts.values())

    def _readers_after(self, entries: list[MergeEntry]) -> dict[str, ElementLogReader]:
        """The logs that are read after inputs have joined and left."""
        readers = dict(self._readers)
        shown = {} if not isinstance(self._merger, SwitchedMerge) else dict(self._merger.inputs)
        for entry in entries:
            match entry.change:
                case Change.JOINS:
                    readers[entry.name] = ElementLogReader(Path(str(entry.folder)))
                    shown[entry.name] = entry.candidate
                case Change.LEAVES:
                    del readers[entry.name]
                    shown.pop(entry.name, None)
                case Change.SWITCH:
                    readers = {name: reader for name, reader in readers.items() if shown[name]}
                    shown = dict.fromkeys(readers, False)
        return readers

    def _work(self, plan: dict[str, Any]) -> None:
        out: list[Batch] = []
        entries = [MergeEntry(**each) for each in plan["entries"]]
        readers = self._readers_after(entries)
        for entry in entries:
            out += self._change(entry, out)
        self._readers = readers
        for name, count in plan["take"]:
            for _ in range(count):
                out += self._merger.push(name, self._readers[name].take())
        self._log.write(self._done, Batch.concat(out, self._merger.schema))
        self._done += 1
        self._entries = plan["registry"]
        if self._done % self._every == 0:
            self._snapshot()

    def _change(self, entry: MergeEntry, shown: list[Batch]) -> list[Batch]:
        """Apply an entry: an input joins or leaves, or the query is replaced. `shown` is the output
        of the batch so far."""
        merger = self._merger
        if entry.change is Change.LEAVES:
            return merger.detach(entry.name)
        if entry.change is Change.JOINS and not entry.candidate:
            merger.attach(entry.name, entry.since)
            return []
        if not isinstance(merger, SwitchedMerge):
            raise PlanError("merge: only a SwitchedMerge can replace one query by another.")
        if entry.change is Change.SWITCH:
            return merger.switch()
        merger.attach(entry.name, entry.since, candidate=True, history=self._history(shown))
        return []

    def _history(self, shown: list[Batch]) -> Iterator[Batch]:
        """The output of all earlier batches, and of the current one so far."""
        yield from ElementLogReader(self.out).read(self._done)
        yield from shown

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
        position = {"done": self._done, "registry": self._entries, "readers": readers}
        text = json.dumps({**position, "state": state})
        write_whole(self._folder / "snapshots" / f"{self._done:012d}.json", text.encode())
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
        self._done, self._entries = saved["done"], saved["registry"]
        for name, folder, position, run in saved["readers"]:
            self._readers[name] = ElementLogReader(Path(folder), position, run)
        state: Slices = {name: _rows(text) for name, text in saved["state"].items()}
        self._merger.restore(state)


def _text(rows: Rows) -> str:
    return base64.b64encode(write_rows(rows)).decode()


def _rows(text: str) -> Rows:
    return read_rows(base64.b64decode(text))
