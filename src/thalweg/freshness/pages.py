"""Pages on demand: locations for the values of waiting keys.

A pool holds a fixed number of pages, each with the same number of locations; several memories may
share it. A memory takes a page from the pool when all its pages are full and gives it back as soon
as no location of it is in use. It keeps the pages that have room (the empty-locations pool), and
fills one of them, the next available page, to the last location before it turns to the next: so
locations that were freed are used again before a new page is asked for.

    add      if the next available page is full: the first page with room, else a page of the pool
             then its location that was freed last, else its first one that was never used
    remove   the location is free again; its page has room; an empty page returns to the pool

A location is `page * locations a page + offset`. `add` and `remove` of many locations lead to
exactly the state that one by one would; the loops are over pages.
"""

from __future__ import annotations

import numpy as np

from thalweg.errors import PlanError
from thalweg.freshness._arrays import Ints

__all__ = ["PagePool", "PagedMemory"]


class PagePool:
    """The free pages. The one that was freed last is used first."""

    def __init__(self, pages: int, locations: int) -> None:
        if pages < 1 or locations < 1:
            raise PlanError(
                f"a page pool needs at least one page of one location; got {pages} of {locations}."
            )
        self.pages = pages
        self.locations = locations
        """Locations a page."""
        self._unused = list(range(pages - 1, -1, -1))

    @property
    def lent(self) -> int:
        """Pages in use."""
        return self.pages - len(self._unused)

    def lend(self) -> int:
        """A page, -1 if none is left."""
        return self._unused.pop() if self._unused else -1

    def give_back(self, page: int) -> None:
        self._unused.append(page)


class PagedMemory:
    """
    >>> memory = PagedMemory(PagePool(pages=2, locations=2))
    >>> memory.add(3), memory.pages
    (array([0, 1, 2]), 2)
    >>> memory.remove(np.array([0, 2]))   # page 1 is empty and goes back
    >>> memory.add(2), memory.pages, memory.used
    (array([0, 2]), 2, 3)
    >>> memory.add(5)   # one location was left
    array([3])
    """

    def __init__(self, pool: PagePool) -> None:
        self.pool = pool
        size = pool.locations
        self._free = np.tile(np.arange(size - 1, -1, -1, dtype=np.int32), (pool.pages, 1))
        """By page: a stack of its free locations, `_free[page, : _room[page]]`."""
        self._room = np.zeros(pool.pages, np.int64)
        self._with_room: dict[int, None] = {}
        """The empty-locations pool: pages in use that have room, in the order they got it."""
        self._next_page = -1
        self.used = 0
        self.pages = 0

    @property
    def free_locations(self) -> int:
        """How many locations can still be given."""
        return (self.pool.pages - self.pool.lent + self.pages) * self.pool.locations - self.used

    @property
    def next_available(self) -> tuple[int, int] | None:
        """Page and offset that `add` would give without looking for a page."""
        page = self._next_page
        return None if page < 0 else (page, int(self._free[page, self._room[page] - 1]))

    @property
    def pages_with_room(self) -> dict[int, list[int]]:
        """The empty-locations pool: pages and their free offsets, the next one to be used last."""
        return {page: self._free[page, : self._room[page]].tolist() for page in self._with_room}

    def add_one(self) -> int:
        """A location, -1 if none is left."""
        page = self._find_page()
        if page < 0:
            return -1
        room = int(self._room[page]) - 1
        self._room[page] = room
        self.used += 1
        if not room:
            self._leave_page(page)
        return page * self.pool.locations + int(self._free[page, room])

    def add(self, count: int) -> Ints:
        """As many locations as there are, `count` at most."""
        parts: list[Ints] = []
        while count > 0:
            page = self._find_page()
            if page < 0:
                break
            room = int(self._room[page])
            number = min(room, count)
            offsets = self._free[page, room - number : room][::-1].astype(np.int64)
            parts.append(page * self.pool.locations + offsets)
            self._room[page] = room - number
            if number == room:
                self._leave_page(page)
            count -= number
            self.used += number
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def remove_one(self, location: int) -> None:
        page, offset = divmod(location, self.pool.locations)
        self._free[page, self._room[page]] = offset
        self._note_removal(page, 1)
        self.used -= 1

    def remove(self, locations: Ints) -> None:
        """Distinct locations that are in use."""
        if not len(locations):
            return
        pages, offsets = np.divmod(locations, self.pool.locations)
        order = np.argsort(pages, kind="stable")
        bounds = np.flatnonzero(np.diff(pages[order], prepend=-1))
        ends = np.append(bounds[1:], len(order))
        # A page gets room with its first removal and may be empty with its last one: pages are
        # noted in the order in which this would have happened one by one.
        for begin, end in zip(bounds.tolist(), ends.tolist(), strict=True):
            page = int(pages[order[begin]])
            room = int(self._room[page])
            self._free[page, room : room + end - begin] = offsets[order[begin:end]]
        for at in np.argsort(order[bounds], kind="stable").tolist():
            self._note_room(int(pages[order[bounds[at]]]))
        for at in np.argsort(order[ends - 1], kind="stable").tolist():
            self._note_removal(int(pages[order[bounds[at]]]), int(ends[at] - bounds[at]))
        self.used -= len(locations)

    def _find_page(self) -> int:
        if self._next_page >= 0:
            return self._next_page
        if self._with_room:
            self._next_page = next(iter(self._with_room))
            return self._next_page
        page = self.pool.lend()
        if page < 0:
            return -1
        self.pages += 1
        self._free[page] = np.arange(self.pool.locations - 1, -1, -1)
        self._room[page] = self.pool.locations
        self._with_room[page] = None
        self._next_page = page
        return page

    def _leave_page(self, page: int) -> None:
        del self._with_room[page]
        self._next_page = -1

    def _note_room(self, page: int) -> None:
        self._with_room.setdefault(page)

    def _note_removal(self, page: int, count: int) -> None:
        room = int(self._room[page]) + count
        self._room[page] = room
        self._note_room(page)
        if room == self.pool.locations:
            del self._with_room[page]
            self._room[page] = 0
            if self._next_page == page:
                self._next_page = -1
            self.pool.give_back(page)
            self.pages -= 1
