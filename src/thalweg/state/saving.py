"""An arrangement as slices of a snapshot, and restored from them.

    <name>/<class>/<width>/<slot>/<run>    one run
    <name>/patch/<number>                  weights and marks that changed after the run was written
    <name>/tail                            the rows that wait unsorted

A run that did not change is the same object as in the snapshot before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from thalweg.errors import StateError
from thalweg.model.rows import Codes, Rows
from thalweg.state.columns import RowColumns, read_columns, write_columns
from thalweg.state.patches import Patch, PatchLog
from thalweg.state.runs import Run
from thalweg.state.slices import Slices
from thalweg.state.slots import SlotTable

__all__ = ["read_arrangement", "write_arrangement"]


def write_arrangement(name: str, tail: Run | None, table: SlotTable, log: PatchLog) -> Slices:
    """The slices of an arrangement. Runs that are written again get new numbers; changes of other
    runs since the last snapshot become a patch."""
    slices: Slices = {}
    news: list[Patch] = []
    for (class_, slot), held in table.slots.items():
        for run in held.runs:
            patch = run.patch()
            if patch is not None:
                news.append(Patch(np.full(len(patch[0]), run.number), *patch, number=0))
            elif run.written is None and run.patched:
                run.number = table.next()
            key = f"{name}/{class_}/{table.widths[class_]}/{slot}/{run.number}"
            slices[key] = run.write()
    runs = {run.number for held in table.slots.values() for run in held.runs}
    if news:
        log.add(Patch.concat(news, table.next()), runs)
    if log.patches:
        log.forget(runs)
    slices |= {f"{name}/patch/{p.number}": p.write() for p in log.patches}
    if tail is not None:
        if tail.touched is not None:
            tail.written, tail.touched = None, None
        if tail.written is None:
            tail.written = write_columns(tail.rows)
        slices[f"{name}/tail"] = tail.written
    return slices


def read_arrangement(
    name: str,
    slices: Mapping[str, Rows],
    schema: pa.Schema,
    groups_of: Callable[[RowColumns], Codes],
    table: SlotTable,
    log: PatchLog,
) -> Run | None:
    """Fill an empty table and an empty log from slices; returns the tail, if there is one."""
    tail: Run | None = None
    loaded: dict[int, tuple[tuple[int, int], RowColumns, Rows]] = {}
    for key, written in slices.items():
        owner, *place = key.split("/")
        if owner != name:
            continue
        if place[0] == "patch":
            log.patches.append(Patch.read(written, int(place[1])))
            continue
        if len(place) not in (1, 4):
            raise StateError(f"{key!r} is no slice of an arrangement.")
        rows = read_columns(written, schema)
        rows.group = groups_of(rows)
        if place[0] == "tail":
            tail = Run.unsorted(rows)
            tail.written = written
            continue
        class_, width, slot, number = map(int, place)
        table.widths[class_] = width
        loaded[number] = ((class_, slot), rows, written)
    log.patches.sort(key=lambda patch: patch.number)
    for patch in log.patches:
        _apply_patch(patch, {number: rows for number, (_, rows, _) in loaded.items()})
    for number, (at, rows, written) in sorted(loaded.items(), key=lambda one: -len(one[1][1])):
        table.load(at, rows, number).written = written
    used = [patch.number for patch in log.patches]
    used += [int(patch.run.max()) for patch in log.patches]
    table.number = max([0, *loaded, *used])
    return tail


def _apply_patch(patch: Patch, runs: Mapping[int, RowColumns]) -> None:
    for number in np.unique(patch.run).tolist():
        rows = runs.get(number)
        if rows is None:
            continue  # the run was merged into another, or dropped
        its = patch.run == number
        rows.set_weights(patch.position[its], patch.weight[its])
        for mark, values in zip(rows.marks, patch.marks, strict=True):
            mark[patch.position[its]] = values[its]
