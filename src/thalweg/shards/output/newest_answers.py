"""The newest answer of each key, read from where a query's answers are written.

A query over update queues leaves a note in its checkpoint (`WatchNote`): which receivers it reads,
which columns of its answers are the key, and where answers go. Answers in files, or in the table
that is kept in the checkpoint, are read as they come, a micro-batch at a time, and the row of each
key with the largest start is held; an answer that is taken back leaves its key without one until
the next. Answers that go elsewhere cannot be read here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from thalweg.errors import InputError
from thalweg.io.whole_files import write_whole
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.output.kept_table import batch_of_table_file
from thalweg.shards.output.sink_folder import batch_of_folder
from thalweg.shards.output.typed_rows import to_changelog

__all__ = ["WRITTEN", "NewestAnswers", "WatchNote"]

WRITTEN = "_written"
"""When the micro-batch of an answer was written, in microseconds."""
_NOTE = "watch.json"
_READABLE = ("parquet", "orc", "csv", "json")


@dataclass(frozen=True, slots=True)
class WatchNote:
    receivers: dict[str, str]
    """By source: the folder of its receiver."""
    keys: list[str]
    """The columns of the answers that are the update key."""
    to: str
    path: str | None

    def write(self, checkpoint: Path) -> None:
        folder = checkpoint / "thalweg"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / _NOTE, json.dumps(asdict(self)), durable=False)

    @classmethod
    def read(cls, checkpoint: Path) -> Self:
        try:
            text = (checkpoint / "thalweg" / _NOTE).read_text(encoding="utf-8")
            return cls(**json.loads(text))
        except (OSError, ValueError, TypeError) as reason:
            raise InputError(
                f"{checkpoint}: this is not the checkpoint of a query over a receiver."
            ) from reason


class NewestAnswers:
    def __init__(self, note: WatchNote, checkpoint: Path) -> None:
        self._note = note
        kept = checkpoint / "thalweg" / "table"
        self._folder = Path(note.path) if note.path is not None else kept
        self.is_readable = note.to == "memory" or note.to in _READABLE
        self._last = -1
        self.rows: pa.Table | None = None
        """Newest answer per key: `_start`, the payload, and when it was written."""

    def refresh(self) -> None:
        """Take in the micro-batches that were written since."""
        if not self.is_readable or not self._folder.is_dir():
            return
        for number, changes, written in list(self._new_batches()):
            self._last = max(self._last, number)
            if changes is not None and len(changes):
                self._fold(changes, written)

    def _new_batches(self) -> Iterator[tuple[int, pa.Table | None, int]]:
        batch_of = batch_of_table_file if self._note.path is None else batch_of_folder
        numbered = [(batch_of(path.name), path) for path in self._folder.iterdir()]
        for number, path in sorted((n, path) for n, path in numbered if n is not None):
            if number > self._last and (path.is_file() or (path / "_SUCCESS").exists()):
                yield number, self._read(path), path.stat().st_mtime_ns // 1_000

    def _read(self, path: Path) -> pa.Table | None:
        if path.is_file():
            batch = batch_of_blob(path.read_bytes())
            return pa.Table.from_batches([to_changelog(batch, batch.schema)])
        files = [str(each) for each in sorted(path.iterdir()) if each.name.startswith("part-")]
        if not files:
            return None
        return pa.dataset.dataset(files, format=self._note.to).to_table()

    def _fold(self, changes: pa.Table, written: int) -> None:
        if "_kind" in changes.column_names:
            adjusts = changes.filter(pc.equal(changes["_kind"], "adjust"))
            removed = adjusts.filter(
                pc.fill_null(pc.equal(adjusts["_new_end"], adjusts["_start"]), False)
            )
            changes = changes.filter(pc.equal(changes["_kind"], "insert"))
        else:
            deleted = (
                changes["_deleted"]
                if "_deleted" in changes.column_names
                else pa.chunked_array([pa.array(np.zeros(len(changes), np.bool_))])
            )
            removed, changes = changes.filter(deleted), changes.filter(pc.invert(deleted))
        names = [name for name in changes.column_names if name not in _MARKS]
        added = changes.select(names).append_column(
            WRITTEN, pa.array(np.full(len(changes), written, np.int64))
        )
        held = self.rows
        if held is not None and len(removed):
            on = [*self._note.keys, "_start"]
            held = held.join(removed.select(on), keys=on, join_type="left anti")
        together = added if held is None else pa.concat_tables([held, added])
        order = pc.sort_indices(together, [("_start", "ascending"), (WRITTEN, "ascending")])
        together = together.take(order)
        ranked = together.append_column("_rank", pa.array(np.arange(len(together))))
        newest = ranked.group_by(self._note.keys).aggregate([("_rank", "max")])["_rank_max"]
        self.rows = together.take(newest)


_MARKS = ("_kind", "_end", "_new_end", "_deleted")
