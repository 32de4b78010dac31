"""The processes of a query with replicas: `replica` runs the query and writes a log, `front` merges
the logs. Each goes on where it was after `kill -9`, and ends when its supervisor has ended."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from thalweg.cli.ha_folder import HaFolder, QueryFile
from thalweg.cli.ha_replica import run_in_process
from thalweg.cli.ha_task import FrontTask, ReplicaTask, task_of
from thalweg.errors import PlanError, ThalwegError
from thalweg.io.locks import lock_file
from thalweg.merging import LoggedMerge, Merger, SwitchedMerge
from thalweg.model.time import INFINITY, MIN_TIME

__all__ = ["main"]

_LOOK_S = 0.05
"""How often a process looks for more when there is nothing to do."""


def main() -> int:
    """Do the task of the command line (see `ha_task`)."""
    task = task_of(sys.argv[1:])
    folder = HaFolder(Path(task.folder))
    supervisor = os.getppid()
    threading.Thread(target=_end_with, args=(supervisor,), daemon=True).start()
    try:
        if isinstance(task, FrontTask):
            file = QueryFile.load(Path(task.file))
            lock_file(folder.front / "lock", patience_s=float("inf"))  # as long as another one runs
            _front(folder, file)
        else:
            _replica(folder, task)
    except ThalwegError as reason:
        sys.stderr.write(f"{type(reason).__name__}: {reason}\n")
        return 3
    return 0


def _replica(folder: HaFolder, task: ReplicaTask) -> None:
    if not lock_file(folder.replica(task.name) / "lock", patience_s=30):
        raise PlanError(f"replica {task.name}: another process is running it.")
    run = _on_spark if task.engine == "spark" else run_in_process
    settled = folder.settled if task.feedback else None
    run(folder, task.name, QueryFile.load(Path(task.file)), settled, finish=task.finish)


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
