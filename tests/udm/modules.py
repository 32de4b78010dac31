"""Modules for tests: one for each way in which a module may be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.udm import Event, Registry, Window, aggregate, operator

MINE = Registry()
V = {"v": "int64"}


@aggregate("t.total", inputs=V, output="int64", registry=MINE)
def total(values: Sequence[int | None]) -> int:
    """The sum; null counts as nothing."""
    return sum(value for value in values if value is not None)


@aggregate("t.listing", inputs=V, output="string", registry=MINE)
def listing(values: Sequence[int | None]) -> str:
    """Depends on the order of its rows."""
    return "".join("-" if value is None else str(value) for value in values)


@aggregate("t.spans", inputs=V, output="string", time_sensitive=True, registry=MINE)
def spans(events: Sequence[Event], window: Window) -> str:
    """Everything that a time-sensitive module can see."""
    return f"{window.start}:{window.end} " + " ".join(
        f"{e.start},{e.end},{e.payload}" for e in events
    )


@aggregate(
    "t.starts", inputs=V, output="string", time_sensitive=True, ignores_ends=True, registry=MINE
)
def starts(events: Sequence[Event], window: Window) -> str:
    """Sees starts alone."""
    return " ".join(f"{e.start},{e.payload}" for e in events)


@aggregate("t.spread", inputs=V, output="int64", takes="pandas", nulls="skip", registry=MINE)
def spread(frame: Any) -> int:
    return int(frame["v"].max() - frame["v"].min())


@aggregate("t.sums", inputs=V, output="int64", nulls="skip", registry=MINE)
class Sums:
    """Incremental and differential."""

    def empty(self) -> list[int]:
        return [0, 0]

    def add(self, state: list[int], values: Sequence[int]) -> list[int]:
        return [state[0] + sum(values), state[1] + len(values)]

    def remove(self, state: list[int], values: Sequence[int]) -> list[int]:
        return [state[0] - sum(values), state[1] - len(values)]

    def result(self, state: list[int]) -> int:
        return state[0] * 100 + state[1]


@aggregate("t.largest", inputs=V, output="int64", nulls="skip", registry=MINE)
class Largest:
    """Incremental, but what was added cannot be taken out; its state is changed in place."""

    def empty(self) -> list[int]:
        return []

    def add(self, state: list[int], values: Sequence[int]) -> list[int]:
        state.extend(values)
        return state

    def result(self, state: list[int]) -> int:
        return max(state)


@aggregate("t.weighted", inputs=V, output="int64", time_sensitive=True, nulls="skip", registry=MINE)
class Weighted:
    """Incremental and time-sensitive."""

    def empty(self) -> int:
        return 0

    def add(self, state: int, events: Sequence[Event]) -> int:
        return state + sum(int(e.payload) * min(e.duration, 10**6) for e in events)

    def remove(self, state: int, events: Sequence[Event]) -> int:
        return state - sum(int(e.payload) * min(e.duration, 10**6) for e in events)

    def result(self, state: int, window: Window) -> int:
        return state * 1000 + window.duration % 1000


@aggregate("t.columns", inputs=V, output="int64", nulls="skip", registry=MINE)
class InColumns:
    """All windows in one call."""

    def compute_groups(self, rows: pa.RecordBatch, offsets: Any) -> Any:
        running = np.concatenate([[0], np.cumsum(rows.column("v").to_numpy(zero_copy_only=False))])
        return (running[offsets[1:]] - running[offsets[:-1]]).astype(np.int64)


@aggregate("t.partial", inputs=V, output="int64", nulls="skip", any_order=True, registry=MINE)
class Partial:
    """States in columns: panes."""

    def partials(self, rows: pa.RecordBatch, offsets: Any) -> pa.RecordBatch:
        running = np.concatenate([[0], np.cumsum(rows.column("v").to_numpy(zero_copy_only=False))])
        sums = (running[offsets[1:]] - running[offsets[:-1]]).astype(np.int64)
        return pa.RecordBatch.from_pydict({"sum": sums, "n": np.diff(offsets)})

    def merge_groups(self, states: pa.RecordBatch, offsets: Any) -> pa.RecordBatch:
        columns = {}
        for name in ("sum", "n"):
            running = np.concatenate([[0], np.cumsum(states.column(name).to_numpy())])
            columns[name] = running[offsets[1:]] - running[offsets[:-1]]
        return pa.RecordBatch.from_pydict(columns)

    def results(self, states: pa.RecordBatch) -> Any:
        return states.column("sum").to_numpy() * 100 + states.column("n").to_numpy()


@aggregate("t.saved", inputs=V, output="string", nulls="skip", registry=MINE)
class Saved:
    """States as bytes: panes, one call a window."""

    def empty(self) -> set[int]:
        return set()

    def add(self, state: set[int], values: Sequence[int]) -> set[int]:
        return state | set(values)

    def merge(self, one: set[int], two: set[int]) -> set[int]:
        return one | two

    def result(self, state: set[int]) -> str:
        return "".join(map(str, sorted(state)))

    def save(self, state: set[int]) -> bytes:
        return bytes(sorted(state))

    def load(self, saved: bytes) -> set[int]:
        return set(saved)


@operator(
    "t.evens",
    inputs=V,
    output={"v": "int64", "twice": "int64"},
    commutes_with_filter="v",
    registry=MINE,
)
def evens(values: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """Some of the rows: zero or more payloads."""
    return ((value, 2 * value) for value in values if value is not None and value % 2 == 0)


@operator("t.pairs", inputs=V, output={"a": "int64", "b": "int64"}, registry=MINE)
def pairs(values: Sequence[int | None]) -> list[dict[str, int | None]]:
    """More rows than it is given: its answers are computed again, not kept."""
    return [{"a": a, "b": b} for a in values for b in values]


@operator("t.table", inputs=V, output={"v": "int64"}, takes="arrow", registry=MINE)
def table(given: pa.Table) -> pa.Table:
    return given


@operator("t.wide", inputs=V, output={"v": "int64"}, registry=MINE)
class Wide:
    """An operator in columns."""

    def compute_groups(self, rows: pa.RecordBatch, offsets: Any) -> Any:
        return rows, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


@operator(
    "t.echo", inputs=V, output={"v": "int64"}, time_sensitive=True, stamp="clip", registry=MINE
)
def echo(events: Sequence[Event], window: Window) -> list[Event]:
    """Its input, with the lifetimes it saw."""
    return [Event(e.start, e.end, {"v": e.payload}) for e in events]


@operator(
    "t.after", inputs=V, output={"v": "int64"}, time_sensitive=True, stamp="keep", registry=MINE
)
def after(events: Sequence[Event], window: Window) -> list[Event]:
    """Stamps beyond the window."""
    return [
        Event(max(e.start, window.start) + 1, max(e.start, window.start) + 5, {"v": e.payload})
        for e in events
    ]


@operator(
    "t.steps",
    inputs=V,
    output={"v": "int64", "n": "int64"},
    time_sensitive=True,
    stamp="time-bound",
    time_bound=True,
    registry=MINE,
)
def steps(events: Sequence[Event], window: Window) -> Iterator[Event]:
    """At each start in the window: the value, and how many have started. Nothing later changes
    it."""
    for e in events:
        if e.start >= window.start:
            yield Event(
                e.start,
                e.start + 1,
                (e.payload, sum(1 for other in events if other.start <= e.start)),
            )
