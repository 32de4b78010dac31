"""Pages: a table by slot, saved in pages of neighbouring slots.

A kernel that keeps its rows by slot, in columns that it changes in place, notes which slots it has
touched. A snapshot writes the pages of these slots again; other pages are the same objects as
before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from thalweg.model.rows import Bools, Codes, Rows, concat_rows
from thalweg.model.time import greatest
from thalweg.state.slices import Slices

__all__ = ["Pages", "read_pages", "read_whole"]

_SMALLEST = 6
"""Slots of the smallest page, as a power of two."""
_MOST = 9
"""The most pages of a table, as a power of two: a snapshot names them all, and ten rows at random
slots touch two in a hundred of them."""


class Pages:
    """
    >>> import pyarrow as pa
    >>> pages, values = Pages(), np.arange(200)
    >>> def write(slots: Codes) -> Slices:
    ...     return {"values": pa.RecordBatch.from_arrays([pa.array(values[slots])], names=["v"])}
    >>> first = pages.snapshot(np.ones(200, np.bool_), write)
    >>> values[70] = 0
    >>> pages.touch(np.array([70]))
    >>> second = pages.snapshot(np.ones(200, np.bool_), write)
    >>> [name for name in second if second[name] is not first[name]]
    ['values/6/1']
    """

    def __init__(self) -> None:
        self._bits = _SMALLEST
        self._touched: Bools = np.zeros(1, np.bool_)
        """By pages of the smallest size."""
        self._all = True
        self._written: Slices = {}
        self._names: set[str] = set()

    def touch(self, slots: Codes | slice) -> None:
        """Note that rows were added, removed or changed at these slots."""
        if isinstance(slots, slice):
            last = (slots.stop - 1) >> _SMALLEST
            self._grow(last + 1)
            self._touched[slots.start >> _SMALLEST : last + 1] = True
        elif len(slots):
            pages = slots >> _SMALLEST
            self._grow(greatest(pages) + 1)
            self._touched[pages] = True

    def touch_all(self) -> None:
        """Note that every slot may have changed."""
        self._all = True

    def restore(self, slices: Mapping[str, Rows], name: str) -> None:
        """Take over pages that were read, so that they are written again only if they change."""
        bits = 0
        for key, rows in slices.items():
            owner, *numbers = key.split("/")
            if owner == name and len(numbers) == 2:
                bits = int(numbers[0])
                self._written[key] = rows
        if bits:
            self._bits, self._all = bits, False
            self._names.add(name)

    def snapshot(self, used: Bools, write: Callable[[Codes], Slices]) -> Slices:
        """The slices of all pages, `<name>/<bits of a slot in its page>/<page>`. `used` says which
        slots have a row; `write` gives the slices of some slots by name."""
        bits = max(_SMALLEST, max(len(used) - 1, 0).bit_length() - _MOST)
        if self._all or bits != self._bits:
            self._bits, self._all, self._written = bits, False, {}
            self._touched = np.ones((len(used) >> _SMALLEST) + 1, np.bool_)
        touched = np.flatnonzero(self._touched) >> (bits - _SMALLEST)
        for page in np.unique(touched).tolist():
            begin = page << bits
            slots = begin + np.flatnonzero(used[begin : begin + (1 << bits)])
            for name in self._names:
                self._written.pop(f"{name}/{bits}/{page}", None)
            if len(slots):
                for name, rows in write(slots).items():
                    self._names.add(name)
                    self._written[f"{name}/{bits}/{page}"] = rows
        self._touched[:] = False
        return dict(self._written)

    def _grow(self, pages: int) -> None:
        more = pages - len(self._touched)
        if more > 0:
            self._touched = np.concatenate([self._touched, np.zeros(more, np.bool_)])


def read_pages(slices: Mapping[str, Rows], name: str) -> list[Rows]:
    """The slices of all pages under a name."""
    return [rows for key, rows in slices.items() if key.startswith(f"{name}/")]


def read_whole(name: str, slices: Mapping[str, Rows]) -> Rows | None:
    """All rows under a name in one batch; None where there is no page."""
    parts = read_pages(slices, name)
    return concat_rows(parts, parts[0].schema) if parts else None
