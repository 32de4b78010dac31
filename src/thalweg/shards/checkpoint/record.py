"""The progress record: digests that a checkpoint must match when a query starts from it again.

Spark trusts its offset log blindly: one changed bit there and rows are read twice. Beside it lies a
record of our own, `thalweg/record.jsonl`: one line per micro-batch with digests of the offset file
and of the files that never change, and a digest of all lines before it. A line is written before
anything of its batch reaches the sink. On start every file that is still there must be as the
record says. The record also names the query, so that a foreign checkpoint is refused; its first
line, numbered -1, is there before Spark writes anything, so that a query can be killed at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thalweg.errors import StateError
from thalweg.io.whole_files import json_digest, write_whole
from thalweg.shards.state.slices import carried_over_whole

__all__ = ["ProgressRecord", "recorded_query"]

_NONE = -1
"""The batch of the line that is written before the first batch."""
_KEPT = 200
"""Lines kept when the record is shortened; Spark keeps as many batches (100 by default) itself."""
_CONSTANT = (
    "metadata",
    "state/*/_metadata/*/*",
    "state/*/_metadata/*",
    "state/*/_stateSchema/*/*",
    "state/*/*/_stateSchema/*/*",
)


class ProgressRecord:
    """The record of one checkpoint. `query` says what the query is: its fragments, exchanges and
    sources."""

    def __init__(self, checkpoint: str, query: dict[str, Any]) -> None:
        self._folder = Path(checkpoint)
        self._file = self._folder / "thalweg" / "record.jsonl"
        self._query = query
        self._last = ""
        self._lines = 0
        self._constant: dict[str, str] | None = None
        self._settled = False
        self.identity = uuid.uuid4().hex
        """Tells this checkpoint from all others; known after `check`."""
        self.last = _NONE
        """The newest batch that may have reached the sink."""
        self.finished = _NONE
        """The newest batch that is done, and will not run again."""

    def check(self) -> None:
        """Refuse a checkpoint that is not what this record says, or not this query's. Nothing is
        written."""
        if not self._file.exists():
            if _numbers(self._folder / "offsets") or (self._folder / "metadata").exists():
                raise StateError(
                    f"{self._folder.name}: this checkpoint was not made by Thalweg, or its record "
                    "is gone. Restore the whole checkpoint, or start with a new one."
                )
            return
        entries = list(self._read())
        if not entries:
            raise StateError(
                f"{self._folder.name}: thalweg/record.jsonl is damaged. Restore the whole "
                "checkpoint."
            )
        self._compare_query(entries[-1]["query"])
        self.identity = entries[-1].get("checkpoint", self.identity)
        constant: dict[str, str] = {}
        ran = [entry for entry in entries if entry["batch"] != _NONE]
        for entry in ran:
            constant |= entry["constant"]
            self._compare(f"offsets/{entry['batch']}", entry["offsets"])
        for name, digest in constant.items():
            self._compare(name, digest)
        if ran:
            self._commits(ran)
            self.last = ran[-1]["batch"]
            self.finished = max(_numbers(self._folder / "commits"), default=_NONE)
        for name in ("offsets", "commits"):
            for number in sorted(_numbers(self._folder / name)):
                self._parse(f"{name}/{number}")

    def begin(self) -> None:
        """Give a new checkpoint its first line."""
        if self._file.exists():
            return
        first = {
            "batch": _NONE,
            "offsets": "",
            "constant": {},
            "query": self._query,
            "checkpoint": self.identity,
            "before": "",
        }
        self._rewrite([{**first, "digest": json_digest(first)}])

    def _compare_query(self, before: dict[str, Any]) -> None:
        """Refuse another query, and the same one with modules whose code has changed."""
        record, now = dict(before), dict(self._query)
        code, code_now = record.pop("modules", {}), now.pop("modules", {})
        operators, operators_now = record.pop("operators", {}), now.pop("operators", {})
        words, words_now = record.pop("words", {}), now.pop("words", {})
        if record != now:
            raise StateError(
                f"{self._folder.name}: the checkpoint belongs to another query. "
                f"{_differences(record, now)} Start the query that it belongs to, or give this one "
                "a new checkpoint."
            )
        for fragment, signatures in operators_now.items():
            words_of_fragment = (words.get(fragment, {}), words_now.get(fragment, {}))
            _require_fitting(
                operators.get(fragment, signatures),
                signatures,
                self._folder.name,
                words_of_fragment,
            )
        changed = [name for name in code if name in code_now and code[name] != code_now[name]]
        if changed:
            raise StateError(
                f"{self._folder.name}: the code of the module {changed[0]} has changed since the "
                "checkpoint was made, under the same version; old answers and new ones would be "
                "mixed. Go on with the code as it was, or give the module another version= and "
                "start with a new checkpoint."
            )

    def _compare(self, name: str, digest: str) -> None:
        found = _digest(self._folder / name)
        if found is not None and found != digest:
            raise StateError(
                f"{self._folder.name}: the file {name} of the checkpoint is not what was written: "
                "it was damaged, changed or mixed with another checkpoint. Going on would count "
                "rows twice or lose some. Restore the whole checkpoint."
            )

    def _parse(self, name: str) -> None:
        """What is not in the record yet must be readable at least. Spark names an empty file
        itself, but not one with a wrong byte."""
        try:
            lines = (self._folder / name).read_text(encoding="utf-8").splitlines()
            whole = all(line == "-" or json.loads(line) is not None for line in lines[1:])
        except ValueError:
            whole = False
        if not whole:
            raise StateError(
                f"{self._folder.name}: the file {name} of the checkpoint is damaged. Restore the "
                "whole checkpoint."
            )

    def _commits(self, entries: list[dict[str, Any]]) -> None:
        """A batch that a later one followed was committed; if its mark is gone, Spark would run it
        again on newer state."""
        offsets = _numbers(self._folder / "offsets")
        commits = _numbers(self._folder / "commits")
        if not offsets:
            raise StateError(
                f"{self._folder.name}: the offset log is empty, but {len(entries)} batches were "
                "recorded. Restore the checkpoint."
            )
        newest = max(offsets)
        if newest < entries[-1]["batch"]:
            raise StateError(
                f"{self._folder.name}: batch {entries[-1]['batch']} was run, but its offsets are "
                "gone. Restore the checkpoint."
            )
        if newest - 1 in offsets and newest - 1 not in commits:
            raise StateError(
                f"{self._folder.name}: the mark that batch {newest - 1} is done is gone. Restore "
                "the checkpoint."
            )

    def note(self, batch: int) -> None:
        """Write down a batch that is about to reach the sink."""
        offsets = _digest(self._folder / "offsets" / str(batch))
        if offsets is None:
            raise StateError(
                f"{self._folder.name}: batch {batch} runs, but its offsets are not in the "
                "checkpoint."
            )
        if self._lines == 0 and self._file.exists():
            entries = list(self._read())
            self._lines = len(entries)
            self._last = entries[-1]["digest"] if entries else ""
            if not self._file.read_bytes().endswith(b"\n"):
                self._rewrite(entries)
            if entries and entries[-1]["batch"] == batch:
                return  # it is run again after a crash
        constant = self._constant_files()
        entry = {
            "batch": batch,
            "offsets": offsets,
            "constant": constant,
            "query": self._query,
            "checkpoint": self.identity,
            "before": self._last,
        }
        entry["digest"] = self._last = json_digest(entry)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._lines += 1
        if self._lines > 2 * _KEPT:
            self._shorten()

    def _constant_files(self) -> dict[str, str]:
        """The files that never change, with digests. They are written with the first micro-batch of
        a run; once two in a row have found the same, the others need not look again."""
        if not self._settled:
            found = {
                str(path.relative_to(self._folder)): digest for path, digest in self._constants()
            }
            self._settled = found == self._constant
            self._constant = found
        return self._constant or {}

    def _constants(self) -> Iterator[tuple[Path, str]]:
        for pattern in _CONSTANT:
            for path in sorted(self._folder.glob(pattern)):
                digest = (
                    _digest(path) if path.is_file() and not path.name.endswith(".crc") else None
                )
                if digest is not None:
                    yield path, digest

    def _read(self) -> Iterator[dict[str, Any]]:
        *lines, rest = self._file.read_text(encoding="utf-8", errors="replace").split("\n")
        if rest and _entry(rest, None) is not None:
            lines.append(rest)  # only its line end is missing
        before: str | None = None
        for number, line in enumerate(
            lines
        ):  # without the rest: it was cut off by a crash, and its batch reached nothing
            entry = _entry(line, before)
            if entry is None:
                raise StateError(
                    f"{self._folder.name}: line {number} of thalweg/record.jsonl is damaged. "
                    "Restore the whole checkpoint."
                )
            before = entry["digest"]
            yield entry

    def _shorten(self) -> None:
        self._rewrite(list(self._read())[-_KEPT:])

    def _rewrite(self, entries: list[dict[str, Any]]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._file, "".join(json.dumps(entry) + "\n" for entry in entries))
        self._lines = len(entries)
        self._last = entries[-1]["digest"] if entries else ""


def recorded_query(checkpoint: Path) -> dict[str, Any]:
    """The query that the record of a checkpoint names; empty where there is no readable record
    (`check` reports what is wrong with it)."""
    try:
        lines = (checkpoint / "thalweg" / "record.jsonl").read_text(encoding="utf-8").splitlines()
        entries = (_entry(line, None) for line in reversed(lines))
        return next((dict(entry["query"]) for entry in entries if entry is not None), {})
    except (OSError, ValueError):
        return {}


def _require_fitting(
    before: dict[str, str],
    now: dict[str, str],
    where: str,
    words: tuple[dict[str, str], dict[str, str]] = ({}, {}),
) -> None:
    """Refuse operators whose state would not fit: as a worker would, but before one is started, and
    in the words of the query where its words have changed."""
    try:
        carried_over_whole(before, now)
    except StateError as reason:
        changed = [
            (name, words[0][name], text)
            for name, text in words[1].items()
            if before.get(name) != now.get(name) and words[0].get(name, text) != text
        ]
        if not changed:
            raise StateError(f"{where}: {reason}") from None
        operator, was, is_now = changed[0]
        raise StateError(
            f"{where}: the checkpoint was made by another query: {operator} was {was!r}, and is now"
            f" {is_now!r}. What it has kept does not fit. Start the changed query with a new "
            "checkpoint, or go on with the query as it was."
        ) from None


def _entry(line: str, before: str | None) -> dict[str, Any] | None:
    """A line, if it is whole and follows the one before."""
    try:
        entry: dict[str, Any] = json.loads(line)
        digest = entry.pop("digest")
        if digest != json_digest(entry) or before not in (None, entry["before"]):
            return None
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    return {**entry, "digest": digest}


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    except OSError:
        return None


def _numbers(folder: Path) -> set[int]:
    return (
        {int(path.name) for path in folder.iterdir() if path.name.isdigit()}
        if folder.is_dir()
        else set()
    )


def _differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            return f"Its {key} was {before.get(key)!r}, this query's is {now.get(key)!r}."
    return ""
