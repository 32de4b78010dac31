"""Modules over windows: each window by itself, its rows clipped, the module called once, its output
stamped.

A module is called in the plainest way it has: `compute` over all rows, else one `add` to an empty
state, else one segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model import Row
from thalweg.plan.nodes import WidApply, WindowApply, lifetime_schema
from thalweg.testing.identity import order
from thalweg.testing.oracle.chains import by_group
from thalweg.testing.oracle.scene import Scene, meaning
from thalweg.testing.oracle.values import columns_of
from thalweg.testing.oracle.wid import extents, numbers_given
from thalweg.testing.oracle.windows import windows_of
from thalweg.udm import Event, Window

__all__ = ["ask"]


@meaning(WindowApply)
def window_apply(node: WindowApply, scene: Scene) -> list[Row]:
    schema = lifetime_schema(node.input.schema)
    outputs = [field.name for field in node.schema][len(node.keys) :]
    result: list[Row] = []
    for group in by_group(scene.rows(node.input), node.keys):
        keys = {key: group[0][2].get(key) for key in node.keys}
        for start, end, members in windows_of(group, node.window, scene.horizon):
            window = Window(start, end)
            result += [
                (s, e, {**keys, **payload})
                for s, e, payload in answers(node, members, window, schema, outputs)
            ]
    return result


@meaning(WidApply)
def wid_apply(node: WidApply, scene: Scene) -> list[Row]:
    """The windows of a kind, each by itself; a row is an event of one tick at its start."""
    everything = scene.rows(node.input)
    schema = lifetime_schema(node.input.schema)
    front = len(node.columns) + (0 if node.wid is None else 1)
    outputs = [field.name for field in node.schema][front:]
    result: list[Row] = []
    for part in by_group(everything, node.partition):
        for window, start, end, members in extents(
            node.kind, part, everything, node, numbers_given(node, scene)
        ):
            for group in by_group(members, node.keys):
                keys = {key: group[0][2].get(key) for key in node.columns}
                ids = {} if node.wid is None else {node.wid: window}
                ticks = [(s, s + 1, payload) for s, _, payload in group]
                result += [
                    (s, e, {**keys, **ids, **payload})
                    for s, e, payload in answers(node, ticks, Window(start, end), schema, outputs)
                ]
    return result


def answers(
    node: WindowApply | WidApply,
    members: list[Row],
    window: Window,
    schema: pa.Schema,
    outputs: list[str],
) -> list[Row]:
    """The output rows of a module for one window, with the lifetimes of their stamps."""
    module = node.module
    rows = [
        (s, e, columns_of(node.arguments, {**payload, "_start": s}, schema))
        for s, e, payload in members
    ]
    rows.sort(key=lambda row: (row[0], [order(value) for value in row[2].values()], row[1]))
    if module.nulls == "skip":
        rows = [row for row in rows if None not in row[2].values()]
    if rows:
        shown = [_clipped(row, window, node) for row in rows]
        answer = ask(module, dict(node.params), shown, window, node.input_schema())
        found = list(_events(answer, module.kind, outputs, window))
    else:
        empty = Event(window.start, window.end, {outputs[0]: None})
        found = [empty] if module.kind == "aggregate" else []
    return [
        (*stamp, dict(event.payload)) for event in found for stamp in _stamped(event, window, node)
    ]


def _clipped(row: Row, window: Window, node: WindowApply | WidApply) -> Row:
    start, end, payload = row
    if node.clip in ("left", "full"):
        start = max(start, window.start)
    if node.clip in ("right", "full") or node.module.properties.ignores_ends:
        end = min(end, window.end)
    return start, end, payload


def _stamped(
    event: Event, window: Window, node: WindowApply | WidApply
) -> Iterator[tuple[int, int]]:
    if node.stamp == "align":
        yield window.start, window.end
    elif node.stamp == "clip":
        yield (
            max(event.start, window.start),
            min(event.end, window.end),
        )  # an empty lifetime vanishes in the scene
    elif node.stamp == "unrestricted" or event.start >= window.start:
        yield event.start, event.end
    else:
        raise ValueError(f"{node.module.name} stamped {event} before its window {window}")


def ask(
    module: Any, params: Mapping[str, Any], rows: list[Row], window: Window, schema: pa.Schema
) -> Any:
    """What the methods of a module return for the rows of one window."""
    own = module.make(**params)
    extra: tuple[object, ...] = (window,) if module.time_sensitive else ()
    if "compute" in module.methods:
        return own.compute(_shape(module, rows, schema), *extra)
    if "add" in module.methods:
        return own.result(own.add(own.empty(), _shape(module, rows, schema)), *extra)
    table = _table(rows, schema, timed=module.time_sensitive).to_batches()[0]
    spans = pa.RecordBatch.from_pydict({"start": [window.start], "end": [window.end]})
    extra = (spans,) if module.time_sensitive else ()
    offsets = np.array([0, len(rows)])
    if "compute_groups" in module.methods:
        answer = own.compute_groups(table, offsets, *extra)
        return answer[0]
    return own.results(own.partials(table, offsets), *extra)[0]


def _table(rows: list[Row], schema: pa.Schema, *, timed: bool) -> pa.Table:
    columns = {
        field.name: pa.array([payload[field.name] for _, _, payload in rows], field.type)
        for field in schema
    }
    if timed:
        columns |= {
            "_start": pa.array([row[0] for row in rows], pa.int64()),
            "_end": pa.array([row[1] for row in rows], pa.int64()),
        }
    return pa.table(columns)


def _shape(module: Any, rows: list[Row], schema: pa.Schema) -> Any:
    if module.takes in ("values", "rows"):
        typed = _table(rows, schema, timed=False).to_pylist()
        single = len(schema) == 1
        items = [tuple(row.values()) if not single else next(iter(row.values())) for row in typed]
        if module.takes == "rows":
            items = [MappingProxyType(row) for row in typed]
        return tuple(
            Event(s, e, item) if module.time_sensitive else item
            for (s, e, _), item in zip(rows, items, strict=True)
        )
    table = _table(rows, schema, timed=module.time_sensitive)
    if module.takes == "numpy":
        arrays = {name: table.column(name).to_numpy() for name in table.schema.names}
        return next(iter(arrays.values())) if len(arrays) == 1 else arrays
    return table.to_pandas() if module.takes == "pandas" else table


def _events(answer: Any, kind: str, outputs: list[str], window: Window) -> Iterator[Event]:
    """The answer as events; what has no stamp lives as long as the window."""
    if kind == "aggregate":
        stamped = answer if isinstance(answer, Event) else Event(*window, answer)
        value = (
            stamped.payload.as_py() if isinstance(stamped.payload, pa.Scalar) else stamped.payload
        )
        yield Event(stamped.start, stamped.end, {outputs[0]: value})
        return
    if answer is None:
        return
    if hasattr(answer, "to_dict") and not isinstance(answer, (pa.Table, pa.RecordBatch)):
        answer = pa.Table.from_pandas(answer, preserve_index=False)
    if isinstance(answer, (pa.Table, pa.RecordBatch)):
        for row in answer.to_pylist():
            start, end = row.pop("_start", window.start), row.pop("_end", window.end)
            yield Event(start, end, {name: row[name] for name in outputs})
        return
    for item in answer:
        stamped = item if isinstance(item, Event) else Event(*window, item)
        payload = stamped.payload
        if not isinstance(payload, Mapping):
            payload = dict(
                zip(
                    outputs,
                    payload if isinstance(payload, (tuple, list)) else [payload],
                    strict=True,
                )
            )
        yield Event(stamped.start, stamped.end, {name: payload.get(name) for name in outputs})
