"""A fragment's state in Spark's state store: one entry per slice, and a directory that says which
there are.

    "directory"     crc, {"format", "token", "plan": {operator: signature},
                          "slices": {name: [version, crc]}}
    slice name      Arrow bytes

A micro-batch writes the slices it touched, removes those a CTI let go of, and writes the directory.
Every write has a version of its own. A worker keeps what it last read or wrote, so in the common
case nothing is read but the directory; and after a change of worker only what changed in between.
What is kept is used only where its version is the store's: a failed attempt leaves nothing behind.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from thalweg.errors import StateError
from thalweg.model.rows import Rows
from thalweg.shards.exchange.chunks import read_rows, write_rows

__all__ = [
    "Memory",
    "SliceStore",
    "Store",
    "carried_over",
    "carried_over_whole",
    "is_stateless",
    "operator_and_slice",
    "read_json",
    "remove_slices",
    "require_format",
    "signature_of",
    "slice_name",
    "write_json",
]

_DIRECTORY = "directory"
_DIGITS = 8
STATE_FORMAT = 5
"""Raised when signatures or slices change their meaning; then CHANGELOG.md says so."""


class Store(Protocol):
    """A state store: bytes by name. Changes may be made later, all of them by `settle`."""

    def get(self, name: str) -> bytes | None: ...
    def put(self, name: str, value: bytes) -> None: ...
    def remove(self, name: str) -> None: ...
    def settle(self) -> None: ...


def write_json(store: Store, name: str, value: Mapping[str, Any]) -> None:
    """Write something as JSON with a checksum before it."""
    text = json.dumps(value).encode()
    store.put(name, _checksum(text) + text)


def read_json(store: Store, name: str, what: str) -> dict[str, Any] | None:
    """What `write_json` wrote; None: nothing yet. `what` begins the message for a damaged one."""
    blob = store.get(name)
    if blob is None:
        return None
    if blob[:_DIGITS] != _checksum(blob[_DIGITS:]):
        raise StateError(f"{what} is damaged (checksum); restore the checkpoint.")
    value: dict[str, Any] = json.loads(blob[_DIGITS:])
    return value


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)


@dataclass(slots=True)
class Memory:
    """A worker process's cache of the slices of one bucket."""

    token: str = ""
    rows: dict[str, Rows] = field(default_factory=dict)
    marks: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By slice: version and checksum."""


def require_format(saved: Mapping[str, Any], where: str) -> None:
    """Refuse state that another version wrote in a form that this one cannot read."""
    number = saved.get("format", 1)
    if number != STATE_FORMAT:
        raise StateError(
            f"{where}: the checkpoint was written by another version (state format {number}; this "
            f"version reads {STATE_FORMAT}). Let the version that wrote it finish, or start with a "
            "new checkpoint."
        )


class SliceStore:
    """Reads and writes the slices of one bucket."""

    def __init__(self, store: Store, memory: Memory, where: str) -> None:
        self._store = store
        self._memory = memory
        self._where = where
        self.written = 0
        self.read = 0

    def load(self, plan: Mapping[str, str]) -> dict[str, Rows] | None:
        """The slices, None when there is no state yet. `fresh` afterwards says whether memory
        already was up to date."""
        directory = self._directory()
        if directory is None:
            self._memory.token, self._memory.rows, self._memory.marks = "", {}, {}
            return None
        dropped = carried_over(directory["plan"], plan, directory["slices"])
        if directory["token"] != self._memory.token:
            self._catch_up(directory)
        return {
            name: rows
            for name, rows in self._memory.rows.items()
            if operator_and_slice(name)[0] not in dropped
        }

    @property
    def token(self) -> str:
        return self._memory.token

    def is_current(self) -> bool:
        """Whether memory is what the store holds."""
        directory = self._directory()
        return directory is not None and bool(directory["token"] == self._memory.token)

    def _directory(self) -> dict[str, Any] | None:
        directory = read_json(self._store, _DIRECTORY, f"{self._where}: the directory of the state")
        if directory is None:
            return None
        require_format(directory, self._where)
        return directory

    def _catch_up(self, directory: dict[str, Any]) -> None:
        rows: dict[str, Rows] = {}
        marks: dict[str, tuple[str, int]] = {}
        for name, (version, checksum) in directory["slices"].items():
            mark = (str(version), int(checksum))
            if self._memory.marks.get(name) == mark:
                rows[name] = self._memory.rows[name]
            else:
                rows[name] = self._read(name, mark[1])
            marks[name] = mark
        self._memory.rows, self._memory.marks, self._memory.token = rows, marks, directory["token"]

    def _read(self, name: str, checksum: int) -> Rows:
        blob = self._store.get(name)
        if blob is None:
            raise StateError(
                f"{self._where}: the state lacks the slice {name!r}; restore the checkpoint."
            )
        if zlib.crc32(blob) != checksum:
            raise StateError(
                f"{self._where}: the slice {name!r} of the state is damaged (checksum); restore the"
                " checkpoint."
            )
        self.read += len(blob)
        return read_rows(blob)

    def save(self, slices: Mapping[str, Rows], plan: Mapping[str, str]) -> None:
        """Write what changed since `load`."""
        version = uuid.uuid4().hex
        before, memory = self._memory.rows, self._memory
        marks: dict[str, tuple[str, int]] = {}
        for name, rows in slices.items():
            mark = memory.marks.get(name)
            if mark is not None and before.get(name) is rows:
                marks[name] = mark
                continue
            blob = write_rows(rows)
            checksum = zlib.crc32(blob)
            if mark is not None and mark[1] == checksum and before[name].equals(rows):
                marks[name] = mark
                continue
            self._store.put(name, blob)
            self.written += len(blob)
            marks[name] = (version, checksum)
        for name in memory.marks.keys() - slices.keys():
            self._store.remove(name)
        directory = {
            "format": STATE_FORMAT,
            "token": version,
            "plan": dict(plan),
            "slices": marks,
        }
        write_json(self._store, _DIRECTORY, directory)
        self._store.settle()
        memory.rows, memory.marks, memory.token = dict(slices), marks, version


def remove_slices(store: Store) -> None:
    """Remove all that a directory names, and the directory."""
    blob = store.get(_DIRECTORY)
    if blob is None:
        return
    for name in json.loads(blob[_DIGITS:])["slices"]:
        store.remove(name)
    store.remove(_DIRECTORY)


def slice_name(operator: str, part: str) -> str:
    """The name under which a slice of an operator is stored."""
    return f"{operator}|{part}"


def operator_and_slice(name: str) -> tuple[str, str]:
    """The inverse of `slice_name`; no operator for a slice of the worker itself.

    >>> operator_and_slice(slice_name("join-1", "left")), operator_and_slice("progress")
    (('join-1', 'left'), ('', 'progress'))
    """
    operator, bar, part = name.partition("|")
    return (operator, part) if bar else ("", name)


_STATELESS = "stateless "


def signature_of(text: str, *, keeps_state: bool) -> str:
    """What an operator is compared by, which also says whether it keeps state.

    >>> is_stateless(signature_of("where v > 1", keeps_state=False))
    True
    """
    return text if keeps_state else f"{_STATELESS}{text}"


def is_stateless(signature: str) -> bool:
    return signature.startswith(_STATELESS)


def carried_over_whole(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """As `carried_over`, where every operator that keeps state has some."""
    stateful = [name for name, signature in before.items() if not is_stateless(signature)]
    return carried_over(before, now, {slice_name(name, ""): None for name in stateful})


def carried_over(
    before: Mapping[str, str], now: Mapping[str, str], slices: Mapping[str, Any]
) -> set[str]:
    """Which operators of an older plan are gone; refuses a plan that cannot go on from this state.

    An operator keeps its state when its id and its signature are the same. One that kept nothing
    may come, go or change.

    >>> carried_over({"where-1": "a"}, {"where-1": "b"}, {})
    set()
    >>> try:
    ...     carried_over({"top_k-1": "by a"}, {"top_k-1": "by b"}, {"top_k-1|rows": None})
    ... except StateError as reason:
    ...     print(str(reason)[:70])
    the operator top_k-1 was 'by a' and is now 'by b': its state does not
    """
    if before == now:
        return set()
    stateful = {operator for operator, _ in map(operator_and_slice, slices) if operator}
    for operator, signature in now.items():
        was = before.get(operator)
        if was == signature or (was is not None and operator not in stateful):
            continue
        if was is None and is_stateless(signature):
            continue
        if was is None:
            raise StateError(
                f"the operator {operator} is new in this query and has not seen what came before; "
                "its answers would be wrong. Start the changed query with a new checkpoint."
            )
        raise StateError(
            f"the operator {operator} was {was!r} and is now {signature!r}: its state does not fit."
            " Start the changed query with a new checkpoint."
        )
    return set(before) - set(now)
