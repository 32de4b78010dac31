"""The queries of a host, version by version: an append-only log in the checkpoint.

Each version is a file of its own, `queries/00000003.json`, with the queries that it removes and
adds, a digest of itself and that of the version before. It is written whole or not at all, and is
there when `append` returns. A file that was changed, or one that is missing, is refused. Plans are
JSON (`plan.written`): nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from thalweg.errors import StateError
from thalweg.io.whole_files import json_digest, sync_folder, write_whole

__all__ = [
    "Change",
    "HostedQuery",
    "QueryRegistry",
    "changes_of_json",
    "changes_to_json",
    "queries_at",
    "queries_of_json",
    "queries_to_json",
]


@dataclass(frozen=True, slots=True)
class HostedQuery:
    """A query as it stands in the registry."""

    name: str
    id: str
    """The name of its state; a query that takes over the state of another has the same id."""
    version: int
    """The version from whose first chunk on the query reads a source."""
    plan: dict[str, Any]
    consistency: str = "speculative"
    hold: int = 0
    partial: bool = False
    to: str = "memory"
    path: str | None = None
    output: str = "changelog"
    revision: int = 0
    """The version of the plan, if the state is from an older version."""

    def to_json(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one version."""

    version: int
    removed: tuple[str, ...] = ()
    """The ids of queries whose state is dropped."""
    added: tuple[HostedQuery, ...] = ()
    """New queries, and queries that go on with another plan."""
    digest: str = field(default="", compare=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "removed": list(self.removed),
            "added": [query.to_json() for query in self.added],
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Change:
        added = tuple(HostedQuery(**entry) for entry in fields["added"])
        return cls(fields["version"], tuple(fields["removed"]), added, fields["digest"])


def changes_to_json(changes: Iterable[Change]) -> str:
    """Changes as they travel to workers."""
    return json.dumps([change.to_json() for change in changes])


def changes_of_json(text: str | bytes) -> list[Change]:
    """The inverse of `changes_to_json`."""
    return [Change.from_json(entry) for entry in json.loads(text)]


def queries_to_json(queries: Iterable[HostedQuery]) -> str:
    """Queries as they travel to workers."""
    return json.dumps([query.to_json() for query in queries])


def queries_of_json(text: str) -> dict[str, HostedQuery]:
    """By id: the queries that `queries_to_json` wrote."""
    queries = (HostedQuery(**entry) for entry in json.loads(text))
    return {query.id: query for query in queries}


def queries_at(
    changes: Iterable[Change], before: Iterable[HostedQuery] = ()
) -> dict[str, HostedQuery]:
    """By id: the queries that run after all these changes."""
    live = {query.id: query for query in before}
    for change in changes:
        for removed in change.removed:
            live.pop(removed, None)
        for query in change.added:
            live[query.id] = query
    return live


class QueryRegistry:
    """The versions in a folder, which is looked into with every call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: list[Change] = []

    def check(self) -> None:
        """Refuse a registry that is not as it was written."""
        found = sorted(int(path.stem) for path in self._folder.glob("*.json"))
        if found != list(range(1, len(found) + 1)):
            lost = min(set(range(1, (found or [0])[-1] + 1)) - set(found))
            raise StateError(
                f"{self._folder.name}: version {lost} of the host's queries is gone. Restore the "
                "whole checkpoint."
            )
        self._known = []
        self.changes()

    def changes(self) -> list[Change]:
        """All versions so far, in order."""
        while (path := self._file(len(self._known) + 1)).exists():
            self._known.append(self._read(path))
        return self._known

    @property
    def version(self) -> int:
        return len(self.changes())

    def between(self, after: int, upto: int) -> list[Change]:
        """The versions in (after, upto]."""
        changes = self.changes()
        if not 0 <= after <= upto <= len(changes):
            raise StateError(
                f"{self._folder.name}: the checkpoint asks for the versions {after} to {upto} of "
                f"the host's queries, of which there are {len(changes)}. They were restored apart; "
                "restore the whole checkpoint."
            )
        return changes[after:upto]

    def append(self, removed: Sequence[str], added: Sequence[HostedQuery]) -> Change:
        """Add a version; it is on disk when this returns."""
        before = self.changes()
        change = Change(len(before) + 1, tuple(removed), tuple(added))
        entry = change.to_json() | {"before": before[-1].digest if before else ""}
        entry["digest"] = _digest(entry)
        path = self._file(change.version)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(entry))
        sync_folder(path.parent)
        return self.changes()[change.version - 1]

    def _file(self, version: int) -> Path:
        return self._folder / f"{version:08}.json"

    def _read(self, path: Path) -> Change:
        expected = self._known[-1].digest if self._known else ""
        try:
            entry = json.loads(path.read_bytes())
            change = Change.from_json(entry)
            if (
                entry["digest"] == _digest(entry)
                and entry["before"] == expected
                and change.version == len(self._known) + 1
            ):
                return change
        except (OSError, ValueError, KeyError, TypeError):
            pass
        raise StateError(
            f"{self._folder.name}/{path.name}: this version of the host's queries is not what was "
            "written. Restore the whole checkpoint."
        )


def _digest(entry: dict[str, Any]) -> str:
    content = {name: value for name, value in entry.items() if name != "digest"}
    return json_digest(content)
