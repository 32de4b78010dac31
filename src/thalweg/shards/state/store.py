"""A state store: bytes by name. Spark has one (`spark.stages.sent_state`); here is one in a
dictionary, for tests."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Protocol

from thalweg.errors import StateError

__all__ = ["DictStore", "PrefixedStore", "Store", "read_json", "write_json"]

_DIGITS = 8
"""Characters of a checksum."""


class Store(Protocol):
    """A state store: bytes by name. Changes may be made later, all of them by `settle`."""

    def get(self, name: str) -> bytes | None: ...
    def put(self, name: str, value: bytes) -> None: ...
    def remove(self, name: str) -> None: ...
    def settle(self) -> None: ...


class DictStore:
    """A state store in a dictionary."""

    def __init__(self, entries: dict[str, bytes]) -> None:
        self.entries = entries

    def get(self, name: str) -> bytes | None:
        return self.entries.get(name)

    def put(self, name: str, value: bytes) -> None:
        self.entries[name] = value

    def remove(self, name: str) -> None:
        self.entries.pop(name, None)

    def settle(self) -> None:
        """Nothing to do: changes were made at once."""


class PrefixedStore:
    """The part of a store whose names begin with a prefix. The owner of the store settles it."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store, self._prefix = store, prefix

    def get(self, name: str) -> bytes | None:
        return self._store.get(self._prefix + name)

    def put(self, name: str, value: bytes) -> None:
        self._store.put(self._prefix + name, value)

    def remove(self, name: str) -> None:
        self._store.remove(self._prefix + name)

    def settle(self) -> None:
        """Nothing to do: changes are settled with all others of the store."""


def write_json(store: Store, name: str, value: Mapping[str, Any]) -> None:
    """Write a JSON object with a checksum before it."""
    text = json.dumps(value).encode()
    store.put(name, _checksum(text) + text)


def read_json(store: Store, name: str, what: str) -> dict[str, Any] | None:
    """The object that `write_json` wrote; None: there is none. `what` begins the message about a
    damaged one."""
    blob = store.get(name)
    if blob is None:
        return None
    if blob[:_DIGITS] != _checksum(blob[_DIGITS:]):
        raise StateError(f"{what} is damaged (checksum); restore the checkpoint.")
    value: dict[str, Any] = json.loads(blob[_DIGITS:])
    return value


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)
