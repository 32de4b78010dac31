"""The log of the files of a source: which were found, in which order, each as large as it was then.

Files are numbered in the order in which they are found (oldest first, then by name). The log lies
in the checkpoint (`file_journal`), so that a restart reads the same bytes again.

A file is read when it is whole. Parquet and Arrow files have a mark at their end. Text has none: it
is whole when it has not changed for a while (`settle`). What is not whole yet, and what is no input
(a link, another format), is kept in `passed` with the reason; so is a file that changed after it
was read. A Parquet or Arrow file that was damaged and repaired is read as it is when its turn
comes; whoever reads it leaves a note of what it read (`file_notes`), so that it is not taken for
one that was replaced later.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.io.file_journal import FileJournal
from thalweg.io.file_notes import repair_noted
from thalweg.io.formats import END_MARKS, suffix_format
from thalweg.io.listed import NO_FILES, Listing, equal_runs
from thalweg.io.listing import FilePlace, Found
from thalweg.io.whole_files import write_whole

__all__ = ["FileLog", "passed_files"]

_WRITING = "it is still being written"
_SHOWN = 20
"""Files that are named when some are passed over; the others are counted."""


@dataclass
class FileLog:
    place: FilePlace
    format: str
    log: Path
    settle_us: int = 1_000_000
    clock_ns: Callable[[], int] = time.time_ns
    patience_s: float = 10.0
    passed: dict[str, str] = field(default_factory=dict)
    """Files that are there but are not read, with the reason."""

    def __post_init__(self) -> None:
        self._journal = FileJournal(self.log, patience_s=self.patience_s)
        self._written_passed: dict[str, str] | None = None
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._changed: list[tuple[int, Found]] = []
        """Files that are not as the log has them, with their numbers."""
        self._listed = _Numbered(NO_FILES, *(np.empty(0, np.int64) for _ in range(3)))
        self._numbers = {found.name: number for number, found in enumerate(self.files)}

    @property
    def files(self) -> list[Found]:
        """The files that were found so far, by number."""
        return self._journal.files

    # --------------------------------------------------------------------------------------------
    # looking

    def look(self, limit: int | None = None, *, since: int = 0) -> int:
        """Look for new files and note them; how many are known, at most `limit` more than `since`,
        which is how many were read."""
        found = [entry for entry in self._candidates() if self._is_ready(entry)]
        fresh = [self._with_tail(entry) for entry in found]
        if fresh:
            fresh.sort(key=lambda found: (found.changed_ns, found.name))
            self._note(fresh)
        self.judge(since)
        return len(self.files) if limit is None else min(len(self.files), since + limit)

    def judge(self, read: int) -> None:
        """Say which of the files that were read, the first `read` ones, are others by now."""
        for number, found in self._changed:
            if number < read and self._is_replaced(number, found):
                self.passed[found.name] = (
                    "it was replaced after it was read; what it holds now is not read. Write what "
                    "is new under another name"
                )
        self._write_passed()

    def look_at_all(self) -> int:
        """Look until no file is still being written, or patience is at an end."""
        last = time.monotonic() + self.patience_s
        logged = self.look()
        while _WRITING in self.passed.values() and time.monotonic() < last:
            time.sleep(0.02)
            logged = self.look()
        return logged

    def _with_tail(self, found: Found) -> Found:
        """Text may be appended to, or repaired; its last bytes tell which."""
        if self.format in END_MARKS:
            return found
        return found._replace(tail=self.place.tail_of(found.name, found.size))

    def _candidates(self) -> Iterator[Found]:
        """The files that are not in the log; of those that are, what changed is noted."""
        if self.place.is_unchanged():
            yield from self._again()
            return
        self.place.passed.clear()
        self.passed.clear()
        self._changed.clear()
        listed = self._listed = self._number(self.place.listed())
        for at in np.flatnonzero(listed.differs).tolist():
            self._note_change(int(listed.number[at]), listed.found(at))
        waiting = [listed.found(at) for at in np.flatnonzero(listed.number == _UNKNOWN).tolist()]
        yield from waiting
        names = {found.name for found in waiting}
        for name in [name for name in self._seen if name not in names]:
            del self._seen[name]

    def _number(self, listing: Listing) -> _Numbered:
        """A listing with the number of each file in the log. Those that stood in the last one,
        which are nearly all, are not looked up again."""
        last = self._listed
        number = np.full(len(listing), _UNKNOWN)
        size, changed = listing.size.copy(), listing.changed_ns.copy()
        for here, there, run in equal_runs(listing.names, last.listing.names):
            now, then = slice(here, here + run), slice(there, there + run)
            number[now] = last.number[then]
            size[now], changed[now] = last.size[then], last.changed_ns[then]
        fresh = np.flatnonzero(number == _UNKNOWN)
        size[fresh], changed[fresh] = listing.size[fresh], listing.changed_ns[fresh]
        for place in fresh.tolist():
            name = listing.names[place]
            found = self._numbers.get(name)
            if found is not None:
                number[place] = found
                size[place], changed[place] = self.files[found].size, self.files[found].changed_ns
            elif not self.place.is_input(name):
                number[place] = _NO_INPUT
        return _Numbered(listing, number, size, changed)

    def _note_change(self, number: int, found: Found) -> None:
        """A file of the log that has another size or time now."""
        logged = self.files[number]
        if self.format in END_MARKS:
            self._changed.append((number, found))
        elif logged.size != found.size:
            self.passed[found.name] = (
                f"it was {logged.size:,} bytes when it was read and is {found.size:,} now; what was"
                " added is not read. Write under another name and rename"
            )

    def _is_replaced(self, number: int, found: Found) -> bool:
        """Whether a file that is not as the log has it is not as its reader found it either."""
        return repair_noted(self.log, number) != (found.size, found.changed_ns)

    def _again(self) -> Iterator[Found]:
        """The files that were not whole the last time."""
        for name in list(self._seen):
            info = self.place.files.get_file_info(self.place.path_of(name))
            if info.type == pa.fs.FileType.File:
                yield Found(name, info.size, info.mtime_ns or 0)

    def _is_ready(self, found: Found) -> bool:
        reason = self._reason(found)
        if reason is None:
            self.passed.pop(found.name, None)
            self._seen.pop(found.name, None)
            return True
        self.passed[found.name] = reason
        return False

    def _reason(self, found: Found) -> str | None:
        """Why a file is not read now; None: it is."""
        suffix = suffix_format(found.name)
        if suffix is not None and suffix != self.format and self.format != "elements":
            return f"its name says {suffix}, the source reads {self.format}"
        if self.place.is_link(found.name):
            return "links are not followed"
        seen = self._seen.get(found.name)
        now = self.clock_ns()
        if seen is None or seen[:2] != (found.size, found.changed_ns):
            seen = self._seen[found.name] = (found.size, found.changed_ns, now)
        if not found.size:
            return "it is empty"
        mark = END_MARKS.get(self.format)
        if mark is not None:
            return None if self._ends_with(found, mark) else "its end is missing"
        settle = self.settle_us * 1_000
        if now - found.changed_ns >= settle or now - seen[2] >= settle:
            return None
        return _WRITING

    def _ends_with(self, found: Found, mark: bytes) -> bool:
        try:
            return self.place.ends_with(found, mark)
        except OSError:
            return False

    # --------------------------------------------------------------------------------------------
    # the log

    def _note(self, found: list[Found]) -> None:
        begin = len(self.files)
        self._journal.append(found)
        self._numbers.update((entry.name, begin + at) for at, entry in enumerate(found))

    def _write_passed(self) -> None:
        """Write the list of files that are passed over beside the log, for the query's status."""
        passed = {**self.place.passed, **self.passed}
        if passed == self._written_passed or (self._written_passed is None and not passed):
            return
        self._written_passed = passed
        file = self.log.with_suffix(".passed")
        named = {self.place.shown(name): reason for name, reason in sorted(passed.items())[:_SHOWN]}
        self.log.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps({"count": len(passed), "files": named}), durable=False)


_UNKNOWN, _NO_INPUT = -1, -2


@dataclass(frozen=True, eq=False, slots=True)
class _Numbered:
    """A listing with the number, size and time that each of its files has in the log."""

    listing: Listing
    number: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    changed_ns: npt.NDArray[np.int64]

    @property
    def differs(self) -> npt.NDArray[np.bool_]:
        """Which files of the log are not as it has them."""
        size, time = self.size != self.listing.size, self.changed_ns != self.listing.changed_ns
        differs: npt.NDArray[np.bool_] = (size | time) & (self.number >= 0)
        return differs

    def found(self, at: int) -> Found:
        listing = self.listing
        return Found(listing.names[at], int(listing.size[at]), int(listing.changed_ns[at]))


def passed_files(log: Path) -> tuple[int, dict[str, str]]:
    """How many files of a source are passed over, and some of them with the reason."""
    try:
        passed: dict[str, Any] = json.loads(log.with_suffix(".passed").read_text(encoding="utf-8"))
        return int(passed["count"]), {str(name): str(why) for name, why in passed["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0, {}
