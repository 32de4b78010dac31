"""The state store: weighted rows in immutable runs, found by key and by time, snapshot by identity.

A stateful kernel keeps its rows in an `Arrangement` and numbers its groups with a `KeyIndex`:

    index, held = KeyIndex(fields), Arrangement(schema, group_of)
    group = index.numbers(keys, len(rows))      the group of each row, a small whole number
    held.apply(delta, group)                    rows that come, rows that are taken away
    found = held.find(group, since, until)      rows of equal group that overlap [since, until)
    held.purge(cti)                             forget the rows that have ended by then
    held.snapshot("rows"), held.restore(...)    slices: what did not change is the same object

Where rows are found by what they are instead of by a key, a `RowSet` is used:

    held = RowSet(schema)
    held.change(delta)                          rows that come, rows that are taken away
    held.release(cti)                           the rows that have ended now, each once

A micro-batch costs what it touches, in time and in bytes that a snapshot writes.
"""

from thalweg.state.arrangement import Arrangement
from thalweg.state.hits import Hits
from thalweg.state.key_index import KeyIndex
from thalweg.state.row_set import RowSet
from thalweg.state.slices import Slices, StateSize

__all__ = ["Arrangement", "Hits", "KeyIndex", "RowSet", "Slices", "StateSize"]
