"""A replica of `thalweg ha --in-process`: the query in this process, over the files that its
sources read on Spark. It goes on where it was after `kill -9`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.cli.ha_folder import HaFolder, QueryFile
from thalweg.errors import PlanError
from thalweg.io.element_log import ElementLog
from thalweg.io.files import read_file
from thalweg.io.listing import FilePlace
from thalweg.io.statistics import newest_time
from thalweg.io.unwanted import Unwanted
from thalweg.io.whole_files import write_whole
from thalweg.model.batch import Batch
from thalweg.model.time import MIN_TIME
from thalweg.plan.nodes import Source, find
from thalweg.run import Engine

__all__ = ["FileSource", "run_in_process"]

_LOOK_S = 0.05
"""How often new files are looked for when there is nothing to do."""
_SNAPSHOT_EVERY = 5


class FileSource:
    """The files of one source, read in-process as its query on Spark reads them."""

    def __init__(self, node: Source, checkpoint: Path) -> None:
        from thalweg.shards.sources.event_files import EventFiles, can_skip

        if not isinstance(node.feed, EventFiles) or node.feed.times is None:
            raise PlanError(
                f"source {node.name!r}: in-process replicas read files (spark.from_files); others "
                "run on Spark."
            )
        self.feed, self.times, self.node = node.feed, node.feed.times, node
        self.log = node.feed.log(str(checkpoint / f"{node.name}.files"))
        self.place = FilePlace(node.feed.folder)
        self.unread = 0
        """Rows that were not read, beside those that the engine counts as skipped."""
        self.skips = node.feed.format == "parquet" and can_skip(node)

    def batch(self, number: int, unwanted: int) -> list[Batch]:
        """The rows of a file by its number, with the promises in them. Of a file whose rows all end
        before `unwanted` there is only a row at its newest time, which the engine leaves out."""
        found = self.log.files[number]
        if unwanted > MIN_TIME and self.skips:
            newest = newest_time(self.place, found.name, self.times.start)
            if newest is not None and newest[0] + self.times.duration < unwanted:
                self.unread += newest[1] - 1
                return [self._newest(newest[0])]
        where = f"source {self.node.name!r}, file {self.place.shown(found.name)}"
        columns = self.times.columns(self.node.columns)
        made = []
        for piece in read_file(self.place, found.name, self.feed.form, columns, found=found):
            batch, header = self.times.chunk(piece, self.node.columns, where)
            made.append(batch.with_progress(header.progress))
        return made

    def _newest(self, newest: int) -> Batch:
        columns = [pa.nulls(1, field.type) for field in self.node.columns]
        start = np.array([newest])
        payload = pa.RecordBatch.from_arrays(columns, schema=self.node.columns)
        return Batch(payload, start, start + self.times.duration)


def run_in_process(
    folder: HaFolder, name: str, file: QueryFile, settled: Path | None, *, finish: bool
) -> None:
    """One batch of the log for each file, in the order in which the checkpoint noted the files."""
    place = folder.replica(name) / "checkpoint"
    place.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = file.options
    engine, position = Engine(file.query, **options), _Position()
    saved = place / "state"
    if saved.exists():
        position, snapshot = _Position.of_bytes(saved.read_bytes())
        engine = Engine.restore(file.query, snapshot, **options)
    files_read = position.files_read
    sources = {n.name: FileSource(n, place) for n in find(engine.query, Source)}
    log = ElementLog(folder.log(name), run=name)
    order = _Order(place / "order", sources.keys())
    unwanted = None if settled is None else Unwanted(str(settled), 0)
    engine.skip_before(order.unwanted(position.done))
    while True:
        turn = order.at(position.done)
        if turn is None:
            source = _next(sources, files_read)
            if source is None and not finish:
                time.sleep(_LOOK_S)
                continue
            noted = order.unwanted(position.done)
            turn = _Turn(source, noted if unwanted is None else unwanted.before(noted))
            order.add(turn)
        engine.skip_before(turn.unwanted)
        if turn.source is None:
            out = engine.finish()
            log.write(position.done, Batch.concat(out, file.query.node.schema))
            return
        name = turn.source
        number = files_read.get(name, 0)
        if number >= len(sources[name].log.files):
            sources[name].log.look()
        unread = engine.unwanted_before(name)
        out = [b for rows in sources[name].batch(number, unread) for b in engine.push(name, rows)]
        log.write(position.done, Batch.concat(out, file.query.node.schema))
        files_read[name] = number + 1
        position.done += 1
        if position.done % _SNAPSHOT_EVERY == 0:
            write_whole(saved, position.to_bytes(engine.snapshot()))


def _next(sources: Mapping[str, FileSource], files_read: Mapping[str, int]) -> str | None:
    """Whose file comes next; None: there is none yet."""
    ready = (
        name for name, source in sources.items() if source.log.look() > files_read.get(name, 0)
    )
    return next(ready, None)


@dataclass
class _Position:
    """How far a replica has come."""

    done: int = 0
    """Batches of its log."""
    files_read: dict[str, int] = field(default_factory=dict)
    """By source."""

    def to_bytes(self, snapshot: bytes) -> bytes:
        """The position, with the snapshot of the engine after it."""
        text = json.dumps(asdict(self)).encode()
        return len(text).to_bytes(8, "big") + text + snapshot

    @classmethod
    def of_bytes(cls, raw: bytes) -> tuple[_Position, bytes]:
        """The inverse of `to_bytes`.

        >>> _Position.of_bytes(_Position(7, {"two words": 3}).to_bytes(b"state"))
        (_Position(done=7, files_read={'two words': 3}), b'state')
        """
        size = 8 + int.from_bytes(raw[:8], "big")
        text, snapshot = raw[8:size].decode(), raw[size:]
        if text.startswith("{"):
            return cls(**json.loads(text)), snapshot
        done, *files = text.split(" ")  # of a replica that an earlier version has run
        parts = (each.rpartition("=") for each in files)
        return cls(int(done), {name: int(number) for name, _, number in parts}), snapshot


class _Turn(NamedTuple):
    """Whose file a batch takes; None: the input has ended. And the time before which rows were not
    wanted any more."""

    source: str | None
    unwanted: int


class _Order:
    """The turns of all batches, each written before the batch is worked on: a line `NAME TIME`,
    without a name at the end."""

    def __init__(self, path: Path, sources: Container[str]) -> None:
        self._path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = text.split("\n")[:-1]  # a last line that was cut off does not count
        self._turns = [_turn(line, sources) for line in lines]
        if text and not text.endswith("\n"):
            write_whole(path, "".join(f"{line}\n" for line in lines).encode())

    def at(self, number: int) -> _Turn | None:
        return self._turns[number] if number < len(self._turns) else None

    def unwanted(self, number: int) -> int:
        """The time before which rows were unwanted in the batch before this one."""
        return self._turns[number - 1].unwanted if number else MIN_TIME

    def add(self, turn: _Turn) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{turn.source or ''} {turn.unwanted}\n")
            file.flush()
            os.fsync(file.fileno())
        self._turns.append(turn)


def _turn(line: str, sources: Container[str]) -> _Turn:
    """
    >>> _turn("two words 3", ["two words"]), _turn(" 5", []), _turn("end 5", ["end"])
    (_Turn(source='two words', unwanted=3), _Turn(source=None, unwanted=5), _Turn(source='end',
    unwanted=5))
    """
    name, _, unwanted = line.rpartition(" ")
    has_ended = not name or (name == "end" and name not in sources)  # as earlier versions wrote it
    return _Turn(None if has_ended else name, int(unwanted))
