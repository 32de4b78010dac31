"""Pages: a table by slot, written down a page of neighbouring slots at a time.

A kernel that keeps its rows by slot, in columns that it changes in place, says which slots it has
touched. A snapshot writes the pages of those again; the others are the same objects as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from thalweg.model.rows import Bools, Codes, Rows, concat_rows
from thalweg.state.slices import Slices

__all__ = ["Pages", "read_pages", "read_whole"]

_SMALLEST = 64
_MOST = 1_024
"""Pages of a table: ten rows at random places are one in a hundred of them."""


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
    ['values/1']
    """

    def __init__(self) -> None:
        self._bits = 0
        self._written: dict[int, Slices] = {}
        self._touched: Bools = np.empty(0, np.bool_)
        self._all = True

    def touch(self, slots: Codes) -> None:
        """Rows came to these slots, left them or changed there."""
        if self._all or not len(slots):
            return
        pages = slots >> self._bits
        self._grow(int(pages.max()) + 1)
        self._touched[pages] = True

    def touch_all(self) -> None:
        """Every slot may have changed."""
        self._all = True

    def snapshot(self, used: Bools, write: Callable[[Codes], Slices]) -> Slices:
        """The slices of all pages, `<name>/<page>`. `used` says which slots have a row; `write` gives
        the slices of some slots by name."""
        bits = _bits_of_page(len(used))
        if self._all or bits != self._bits:
            self._bits, self._all, self._written = bits, False, {}
            self._touched = np.ones((len(used) >> bits) + 1, np.bool_)
        for page in np.flatnonzero(self._touched).tolist():
            begin = page << self._bits
            slots = begin + np.flatnonzero(used[begin : begin + (1 << self._bits)])
            if len(slots):
                self._written[page] = write(slots)
            else:
                self._written.pop(page, None)
        self._touched[:] = False
        return {
            f"{name}/{page}": rows
            for page, slices in self._written.items()
            for name, rows in slices.items()
        }

    def _grow(self, pages: int) -> None:
        more = pages - len(self._touched)
        if more > 0:
            self._touched = np.concatenate([self._touched, np.zeros(more, np.bool_)])


def _bits_of_page(capacity: int) -> int:
    """So many that a table has at most so many pages, and the same until the table has doubled."""
    size = max(_SMALLEST, (1 << max(capacity - 1, 0).bit_length()) // _MOST)
    return (size - 1).bit_length()


def read_pages(slices: Mapping[str, Rows]) -> Iterator[Slices]:
    """The slices of one page after the other, by name."""
    pages: dict[str, Slices] = {}
    for key, rows in slices.items():
        name, _, page = key.partition("/")
        if page:
            pages.setdefault(page, {})[name] = rows
    yield from pages.values()


def read_whole(name: str, slices: Mapping[str, Rows]) -> Rows | None:
    """All rows under a name, in one; None where there is none."""
    parts = [page[name] for page in read_pages(slices) if name in page]
    return concat_rows(parts, parts[0].schema) if parts else None
