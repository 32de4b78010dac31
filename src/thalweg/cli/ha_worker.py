"""The processes of a query with replicas: `replica` runs the query and writes a log, `front` merges
the logs. Each goes on where it was after `kill -9`, and ends when its supervisor has ended."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.cli.ha_folder import HaFolder, QueryFile
from thalweg.errors import PlanError, ThalwegError
from thalweg.io.element_log import ElementLog
from thalweg.io.files import read_file
from thalweg.io.listing import FilePlace
from thalweg.io.locks import lock_file
from thalweg.io.statistics import newest_time
from thalweg.io.unwanted import Unwanted
from thalweg.io.whole_files import write_whole
from thalweg.merging import LoggedMerge, Merger, SwitchedMerge
from thalweg.model.batch import Batch
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.plan.nodes import Source, find
from thalweg.run import Engine

__all__ = ["FileSource", "main"]

_LOOK_S = 0.05
"""How often a process looks for more when there is nothing to do."""
_SNAPSHOT_EVERY = 5


def main() -> int:
    """`replica FOLDER NAME FILE ENGINE FINISH FEEDBACK` or `front FOLDER FILE`."""
    task, folder = sys.argv[1], HaFolder(Path(sys.argv[2]))
    supervisor = os.getppid()
    threading.Thread(target=_end_with, args=(supervisor,), daemon=True).start()
    try:
        if task == "front":
            file = QueryFile.load(Path(sys.argv[3]))
            lock_file(folder.front / "lock", patience_s=float("inf"))  # as long as another one runs
            _front(folder, file)
        else:
            name, path, engine, finish, feedback = sys.argv[3:8]
            if not lock_file(folder.replica(name) / "lock", patience_s=30):
                raise PlanError(f"replica {name}: another process is running it.")
            run = _on_spark if engine == "spark" else _in_process
            settled = folder.settled if feedback == "feedback" else None
            run(folder, name, QueryFile.load(Path(path)), settled, finish=finish == "finish")
    except ThalwegError as reason:
        sys.stderr.write(f"{type(reason).__name__}: {reason}\n")
        return 3
    return 0


def _end_with(supervisor: int) -> None:
    while os.getppid() == supervisor:
        time.sleep(0.2)
    os._exit(4)


# ------------------------------------------------------------------------------------------------
# replicas


def _on_spark(
    folder: HaFolder, name: str, file: QueryFile, settled: Path | None, *, finish: bool
) -> None:
    from thalweg import spark
    from thalweg.shards.sources.event_files import skips_unwanted

    trigger = "available now" if finish else "at once"
    spark.start(
        file.query if settled is None else skips_unwanted(file.query, settled),
        to="elements",
        path=str(folder.log(name)),
        checkpoint=str(folder.replica(name) / "checkpoint"),
        trigger=trigger,
        progress=False,
        **file.options,
    ).wait()


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


def _in_process(
    folder: HaFolder, name: str, file: QueryFile, settled: Path | None, *, finish: bool
) -> None:
    """One batch of the log for each file, in the order in which the checkpoint noted the files."""
    place = folder.replica(name) / "checkpoint"
    place.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = file.options
    engine, done = Engine(file.query, **options), 0
    files_read: dict[str, int] = {}
    saved = place / "state"
    if saved.exists():
        raw = saved.read_bytes()
        size = int.from_bytes(raw[:8], "big")
        done, files_read = _position(raw[8 : 8 + size].decode())
        engine = Engine.restore(file.query, raw[8 + size :], **options)
    sources = {n.name: FileSource(n, place) for n in find(engine.query, Source)}
    log = ElementLog(folder.log(name), run=name)
    order = _Order(place / "order")
    unwanted = None if settled is None else Unwanted(str(settled), 0)
    engine.skip_before(order.unwanted(done))
    while True:
        turn = order.at(done)
        if turn is None:
            turn = _next(sources, files_read, finish=finish)
            if turn is None:
                time.sleep(_LOOK_S)
                continue
            noted = order.unwanted(done)
            order.add(turn, noted if unwanted is None else unwanted.before(noted))
        engine.skip_before(order.unwanted(done + 1))
        if turn == "end":
            out = engine.finish()
            log.write(done, Batch.concat(out, file.query.node.schema))
            return
        number = files_read.get(turn, 0)
        if number >= len(sources[turn].log.files):
            sources[turn].log.look()
        unread = engine.unwanted_before(turn)
        out = [b for rows in sources[turn].batch(number, unread) for b in engine.push(turn, rows)]
        log.write(done, Batch.concat(out, file.query.node.schema))
        files_read[turn], done = number + 1, done + 1
        if done % _SNAPSHOT_EVERY == 0:
            files = (f"{name}={number}" for name, number in files_read.items())
            text = " ".join([str(done), *files]).encode()
            write_whole(saved, len(text).to_bytes(8, "big") + text + engine.snapshot())


def _next(
    sources: dict[str, FileSource], files_read: dict[str, int], *, finish: bool
) -> str | None:
    """Whose file comes next; None: there is none yet."""
    for name, source in sources.items():
        if source.log.look() > files_read.get(name, 0):
            return name
    return "end" if finish else None


def _position(text: str) -> tuple[int, dict[str, int]]:
    done, *files_read = text.split(" ")
    parts = (each.rpartition("=") for each in files_read)
    return int(done), {name: int(number) for name, _, number in parts}


class _Order:
    """Whose file each batch takes and which answers are not wanted any more, written before the
    batch is worked on: `NAME TIME`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self._turns = text.split("\n")[:-1]  # a last line that was cut off does not count
        if text and not text.endswith("\n"):
            write_whole(path, "".join(f"{turn}\n" for turn in self._turns).encode())

    def at(self, number: int) -> str | None:
        return self._turns[number].rpartition(" ")[0] if number < len(self._turns) else None

    def unwanted(self, number: int) -> int:
        """What was not wanted any more in the batch before this one."""
        return int(self._turns[number - 1].rpartition(" ")[2]) if number else MIN_TIME

    def add(self, turn: str, unwanted: int) -> None:
        line = f"{turn} {unwanted}"
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
        self._turns.append(line)


# ------------------------------------------------------------------------------------------------
# the merge in front


def _front(folder: HaFolder, file: QueryFile) -> None:
    choice, schema = file.level, file.query.node.schema
    merge = SwitchedMerge(lambda: Merger(schema, level=choice.level, groups=choice.groups))
    logged = LoggedMerge(folder.front, merge, registry=folder.registry)
    written: dict[str, Any] = {}
    while True:
        status = _status(merge)
        if status != written:  # a file that is written waits for the disk, which replicas need too
            folder.write_status(status)
            written = status
        if status["ended"]:
            return
        if not logged.step(most=16):
            time.sleep(_LOOK_S)


def _status(merge: SwitchedMerge) -> dict[str, Any]:
    standing = merge.standing()
    return {**standing, "ended": merge.promised >= INFINITY, "begun": merge.promised > MIN_TIME}


if __name__ == "__main__":
    sys.exit(main())
