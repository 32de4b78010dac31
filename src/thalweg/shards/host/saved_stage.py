"""The entries of a host's stage in the store of a bucket, beside the slices of its queries.

"queries"   the version, and its queries with their plans
"sources"   a token, which every write changes, and the progress of each source
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from thalweg.plan.nodes import Source
from thalweg.shards.host.query_registry import HostedQuery
from thalweg.shards.state.slices import STATE_FORMAT, require_format
from thalweg.shards.state.store import Store, read_json, write_json
from thalweg.shards.worker.input_memory import InputMemory

__all__ = ["SavedQueries", "SavedSources", "SourceState", "saved_token"]

_QUERIES, _SOURCES = "queries", "sources"


@dataclass
class SourceState:
    """The progress of a source in this bucket."""

    memory: InputMemory
    version: int = 0
    """The version of its newest chunk."""

    @property
    def newest(self) -> int | None:
        return self.memory.newest


@dataclass(frozen=True)
class SavedQueries:
    version: int
    queries: list[HostedQuery]

    @property
    def by_id(self) -> dict[str, HostedQuery]:
        return {query.id: query for query in self.queries}

    @classmethod
    def read(cls, store: Store, where: str) -> Self | None:
        saved = _read(store, _QUERIES, where)
        if saved is None:
            return None
        return cls(saved["version"], [HostedQuery(**entry) for entry in saved["queries"]])

    def write(self, store: Store) -> None:
        queries = [query.to_json() for query in self.queries]
        write_json(store, _QUERIES, {"version": self.version, "queries": queries})


@dataclass(frozen=True)
class SavedSources:
    token: str
    sources: Mapping[str, SourceState]

    @classmethod
    def read(cls, store: Store, where: str, sources: Mapping[str, Source]) -> Self | None:
        """The saved progress of those of these sources that have some."""
        saved = _read(store, _SOURCES, where)
        if saved is None:
            return None
        require_format(saved, where)
        states = {
            name: SourceState(
                InputMemory.from_json(state["memory"], sources[name]), state["version"]
            )
            for name, state in saved["sources"].items()
            if name in sources
        }
        return cls(saved["token"], states)

    def write(self, store: Store) -> None:
        sources = {
            name: {"memory": state.memory.to_json(), "version": state.version}
            for name, state in self.sources.items()
        }
        saved = {"format": STATE_FORMAT, "token": self.token, "sources": sources}
        write_json(store, _SOURCES, saved)


def saved_token(store: Store, where: str) -> str | None:
    """The token of the last write; None before the first."""
    saved = _read(store, _SOURCES, where)
    return None if saved is None else str(saved["token"])


def _read(store: Store, name: str, where: str) -> dict[str, Any] | None:
    return read_json(store, name, f"{where}: the state {name!r} of the host")
