"""The canonical history table: what a sequence of elements means.

`cht(elements)` plays the sequence: inserts add rows, each adjust changes a row that must be there.
Many sequences have one table; `equivalent` compares two by it. Duplicates are kept: the table is a
bag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import UnknownRowError
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.element_batches import batches_of
from thalweg.model.elements import Element, Payload
from thalweg.model.order import dense_ranks
from thalweg.model.python_rows import python_rows
from thalweg.model.rows import encode, equal_pairs
from thalweg.model.time import INFINITY

__all__ = ["Row", "cht", "equivalent", "rows_of_table", "table_of_batches"]

Row = tuple[int, int, Payload]


def table_of_batches(batches: Sequence[Batch], schema: pa.Schema) -> pa.Table:
    """The table that a sequence of batches leaves behind: `_start`, `_end`, then the payload;
    sorted by all columns."""
    joined = Batch.concat(batches, schema)
    delta = Delta.of_batch(joined)
    if not joined.insert_only:
        _check_order(joined)
        delta = delta.consolidate()
    repeated = delta.take(np.repeat(np.arange(len(delta)), delta.weight))
    columns = [pa.array(repeated.start), pa.array(repeated.end), *repeated.payload.columns]
    table = pa.Table.from_arrays(columns, names=["_start", "_end", *schema.names])
    keys = pa.Table.from_arrays(
        [
            pa.array(dense_ranks(column)) if _is_unordered(column.type) else column
            for column in columns
        ],
        names=[str(number) for number in range(len(columns))],
    )
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.schema.names])
    return table.take(order)


def _is_unordered(kind: pa.DataType) -> bool:
    """Whether Arrow sorts no column of this type."""
    odd = (pa.types.is_dictionary, pa.types.is_null, pa.types.is_float16, pa.types.is_interval)
    return pa.types.is_nested(kind) or any(is_odd(kind) for is_odd in odd)


def _check_order(batch: Batch) -> None:
    """Every adjust finds its row: no prefix of the sequence takes a row away that is not there."""
    assert batch.is_adjust is not None and batch.new_end is not None
    adjusts = np.flatnonzero(batch.is_adjust)
    arriving = np.flatnonzero(~batch.is_adjust | (batch.new_end > batch.start))
    which = np.concatenate([adjusts, arriving])
    end = np.concatenate(
        [batch.end[adjusts], np.where(batch.is_adjust, batch.new_end, batch.end)[arriving]]
    )
    weight = np.concatenate([np.full(len(adjusts), -1), np.ones(len(arriving), np.int64)])
    turn = np.concatenate([adjusts * 2, arriving * 2 + 1])  # an adjust takes before it gives
    payload = batch.payload.take(pa.array(which))
    code, _ = encode([*payload.columns, batch.start[which], end], len(which))
    order = np.lexsort((turn, code))
    running = np.cumsum(weight[order])
    first = np.ones(len(order), np.bool_)
    first[1:] = code[order][1:] != code[order][:-1]
    before = np.where(first, running - weight[order], 0)
    base = before[np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))]
    bad = np.flatnonzero(running - base < 0)
    if len(bad):
        place = int(which[order[bad[np.argmin(turn[order[bad]])]]])
        row = python_rows(batch.payload.slice(place, 1))[0]
        until = "infinity" if batch.end[place] == INFINITY else str(batch.end[place])
        raise UnknownRowError(
            f"element {place}: adjust of a row that is not in the table: {row} over "
            f"[{batch.start[place]}, {until}). Insert the row first, and give the end it has now."
        )


def rows_of_table(table: pa.Table) -> list[Row]:
    """A table as plain Python rows, for tests and for reading."""
    return [(row.pop("_start"), row.pop("_end"), row) for row in python_rows(table)]


def cht(elements: Iterable[Element], schema: pa.Schema | None = None) -> list[Row]:
    """The canonical history table of a sequence of elements.

    >>> from thalweg.model import adjust, insert
    >>> ends = [adjust({"p": "P1"}, 1, None, 10), adjust({"p": "P1"}, 1, 10, 5)]
    >>> rows = cht([insert({"p": "P1"}, 1), *ends, insert({"p": "P2"}, 4, 9)])
    >>> [(start, end, payload["p"]) for start, end, payload in rows]
    [(1, 5, 'P1'), (4, 9, 'P2')]
    """
    sequence = list(elements)
    payload_schema = schema if schema is not None else _infer(sequence)
    return rows_of_table(
        table_of_batches(list(batches_of(sequence, payload_schema)), payload_schema)
    )


def _infer(elements: Sequence[Element]) -> pa.Schema:
    payloads = [e.payload for e in elements if not hasattr(e, "time")]
    names = list(dict.fromkeys(name for payload in payloads for name in payload))
    arrays = [pa.array([payload.get(name) for payload in payloads]) for name in names]
    return pa.schema([(name, array.type) for name, array in zip(names, arrays, strict=True)])


def equivalent(
    left: Iterable[Element], right: Iterable[Element], schema: pa.Schema | None = None
) -> bool:
    """Whether two sequences of elements mean the same table.

    >>> from thalweg.model import adjust, insert
    >>> ended_twice = [insert({"p": "A"}, 6, 7), adjust({"p": "A"}, 6, 7, 12)]
    >>> equivalent([insert({"p": "A"}, 6, 12)], ended_twice)
    True
    """
    left_elements, right_elements = list(left), list(right)
    payload_schema = schema if schema is not None else _infer([*left_elements, *right_elements])
    left_table, right_table = (
        table_of_batches(list(batches_of(elements, payload_schema)), payload_schema)
        for elements in (left_elements, right_elements)
    )
    if left_table.num_rows != right_table.num_rows:
        return False
    columns = [
        [column.combine_chunks() for column in table.columns] for table in (left_table, right_table)
    ]
    return bool(equal_pairs(*columns).all())
