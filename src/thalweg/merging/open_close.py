"""Open and close elements as input of a merge (Example 2 of the document).

    open(p, s)    an event with payload p begins at s          insert(p, s, infinity)
    close(p, e)   the event with payload p ends at e           adjust(p, s, end so far, e)

At most one event of a payload is active at a time. A close after a close revises the first one; an
open after a close begins another event of that payload, at the end of the one before or later.
I-streams and D-streams, positive and negative tuples are such elements.

State: the last event of each payload, until a CTI has passed its end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import InputError, LifetimeError, UnknownRowError
from thalweg.model.batch import Batch
from thalweg.model.digests import digest_rows
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.merging.chains import ABSENT, distinct_digests
from thalweg.operators.merging.digest_table import DigestTable, grown
from thalweg.operators.merging.settled_rows import SettledRows

__all__ = ["OpenClose"]

KIND, TIME = "_kind", "_time"


class OpenClose:
    """Turns tables with the columns `_kind` ("open" or "close"), `_time` and those of the payload
    into batches.

    >>> import thalweg as tw
    >>> stream = OpenClose(pa.schema([("p", pa.string())]))
    >>> rows = [("open", 2, "B"), ("close", 6, "B"), ("open", 1, "A"), ("close", 5, "B")]
    >>> columns = zip(("_kind", "_time", "p"), zip(*rows, strict=True), strict=True)
    >>> batch = stream.batch(pa.table({name: list(values) for name, values in columns}))
    >>> print(*tw.elements_of([batch]), sep="\\n")
    Insert(payload={'p': 'B'}, start=2, end=9223372036854775807)
    Adjust(payload={'p': 'B'}, start=2, end=9223372036854775807, new_end=6)
    Insert(payload={'p': 'A'}, start=1, end=9223372036854775807)
    Adjust(payload={'p': 'B'}, start=2, end=6, new_end=5)
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._table = DigestTable()
        self._start: Times = np.zeros(self._table.capacity, np.int64)
        self._end: Times = np.full(self._table.capacity, ABSENT)
        self._ended = SettledRows()
        """By their ends, the events that were closed; one that was closed again is there twice."""
        self._cti = MIN_TIME

    def __len__(self) -> int:
        """How many events may still be closed, or closed again."""
        return len(self._table)

    def batch(self, rows: pa.Table | Rows, cti: int | None = None) -> Batch:
        """The rows as elements, in their order, with a CTI after them. An invalid table is refused
        whole."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        if not table.num_rows:
            return Batch.empty(self.schema, self._promise(cti))
        payload = self._payload(table)
        opens, time = self._kinds(table), table.column(TIME).cast(pa.int64()).to_numpy()
        digests = digest_rows(payload.columns, len(time))
        slots = self._table.find(digests)
        fresh = np.flatnonzero(slots < 0)
        first, codes = distinct_digests(digests.take(fresh))
        keys = slots.copy()
        keys[fresh] = self._table.capacity + codes
        order = np.argsort(keys, kind="stable")
        start, before = self._chained(keys[order], slots[order], opens[order], time[order])
        self._check(payload, order, opens[order], time[order], start, before)
        # nothing has changed until here
        added = self._table.add(digests.take(fresh[first]))
        self._start = grown(self._start, self._table.capacity)
        self._end = grown(self._end, self._table.capacity, ABSENT)
        slots[fresh] = added[codes]
        last = np.append(keys[order][1:] != keys[order][:-1], True)
        ends = np.where(opens, INFINITY, time)
        self._start[slots[order[last]]] = start[last]
        self._end[slots[order[last]]] = ends[order[last]]
        closed = order[last & ~opens[order]]
        self._ended.add(slots[closed], ends[closed])
        starts, olds = np.empty_like(time), np.empty_like(time)
        starts[order], olds[order] = start, before
        elements = Batch(payload, starts, np.where(opens, INFINITY, olds), ends, ~opens)
        return elements.with_progress(self._promise(cti))

    def _chained(self, keys: Codes, slots: Codes, opens: Bools, time: Times) -> tuple[Times, Times]:
        """Of elements in order of their payloads: the start of the event that each is about, and
        the end of the payload's last event before it (ABSENT: there was none)."""
        count = len(keys)
        new = np.append(True, keys[1:] != keys[:-1])
        is_held = slots >= 0
        held_start = np.where(is_held, self._start[slots], 0)
        held_end = np.where(is_held, self._end[slots], ABSENT)
        before = np.append(0, np.where(opens, INFINITY, time)[:-1])
        before = np.where(new, held_end, before)
        place = np.maximum.accumulate(np.where(new | opens, np.arange(count), 0))
        return np.where(opens[place], time[place], held_start), before

    def _check(
        self, payload: Rows, order: Codes, opens: Bools, time: Times, start: Times, before: Times
    ) -> None:
        wrong = opens & (before != ABSENT) & (time < before)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            state = "is open" if before[at] == INFINITY else f"ends at {before[at]}"
            raise InputError(
                f"open_close: {_row(payload, order, at)} is opened at {time[at]}, but the event "
                f"before it {state}; one event of a payload is active at a time."
            )
        wrong = ~opens & (before == ABSENT)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise UnknownRowError(
                f"open_close: {_row(payload, order, at)} is closed at {time[at]}, but no event of "
                "it is open, or a CTI has passed its end. Open it first."
            )
        wrong = ~opens & (time < start)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise LifetimeError(
                f"open_close: {_row(payload, order, at)} is closed at {time[at]}, before it opens "
                f"at {start[at]}."
            )

    def _promise(self, cti: int | None) -> Progress:
        if cti is None:
            return NO_PROGRESS
        self._cti = max(self._cti, cti)
        reached = np.unique(self._ended.take_before(self._cti))
        settled = reached[(self._end[reached] != ABSENT) & (self._end[reached] < self._cti)]
        if self._cti == INFINITY:
            settled = self._table.used()
        self._end[settled] = ABSENT
        self._table.remove(settled)
        return Progress(self._cti)

    def _payload(self, table: pa.Table) -> Rows:
        missing = [n for n in (KIND, TIME, *self.schema.names) if n not in table.schema.names]
        if missing:
            raise InputError(f"open_close: the table has no column {', '.join(missing)}.")
        chosen = table.select(self.schema.names).cast(self.schema).combine_chunks()
        batches = chosen.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], self.schema)

    def _kinds(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        kinds = table.column(KIND).cast(pa.string())
        strange = pc.invert(pc.is_in(kinds, pa.array(["open", "close"])))
        if pc.any(strange).as_py():
            value = kinds.filter(strange)[0].as_py()
            raise InputError(f"open_close: a kind is 'open' or 'close', not {value!r}.")
        return np.asarray(pc.equal(kinds, "open").to_numpy().astype(np.bool_))


def _row(payload: Rows, order: Codes, at: int) -> object:
    return payload.slice(int(order[at]), 1).to_pylist()[0]
