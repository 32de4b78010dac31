"""What a reader behind a query does not need any more, passed from one process to another.

A merge in front of replicas has no use for answers that end before what it has promised. It writes
that promise into a file, and each replica reads it there: rows that end before the promise less the
*reach* of the query (how much later than a row the answers may end that it has a part in) are not
wanted. The promise in the file only grows; a reader that finds no file, or one that is being
written, goes on with the promise that it has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from thalweg.model.time import INFINITY, MIN_TIME

if TYPE_CHECKING:
    from thalweg.io.listing import FilePlace

__all__ = ["FileTimes", "Unwanted"]


@dataclass(frozen=True, slots=True)
class Unwanted:
    """`path` is a file of JSON with the promise under `cti`.

    >>> Unwanted("no such file", 10).before(5)
    5
    """

    path: str
    reach: int

    def before(self, lower_bound: int = MIN_TIME) -> int:
        """The time before which rows may end without being of use, at least `lower_bound`."""
        try:
            cti = int(json.loads(Path(self.path).read_bytes())["cti"])
        except (OSError, ValueError, KeyError, TypeError):
            return lower_bound
        if cti <= MIN_TIME or cti >= INFINITY:
            return lower_bound
        return max(lower_bound, cti - self.reach)


@dataclass(frozen=True, slots=True)
class FileTimes:
    """The times of the files of a source, as far as they are known without reading rows."""

    format: str
    column: str | None
    """The column of the time; None: the files hold elements."""
    duration: int
    """How long rows last."""

    def newest_if_unwanted(
        self, place: FilePlace, name: str, unwanted: int
    ) -> tuple[int, int] | None:
        """The newest time in a file and the number of its rows, where its statistics show that all
        of them end before `unwanted`; None: some may not, or the statistics do not show it."""
        if unwanted <= MIN_TIME or self.format != "parquet" or self.column is None:
            return None
        from thalweg.io.statistics import newest_time  # only here: it imports what reads rows

        newest = newest_time(place, name, self.column)
        return newest if newest and newest[0] + self.duration < unwanted else None
