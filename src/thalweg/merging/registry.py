"""Which inputs a merge has: a folder of numbered entries, each for an input that joins or leaves.

An entry is written under a draft name and then hard-linked to its number, so that two writers never
get the same number and a reader sees a whole entry or none. Entries are never changed. A merge logs
how many entries it has applied, so that it applies the same ones again after a restart.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     registry = MergeRegistry(Path(folder))
...     registry.attach("one", Path("logs/one"))
...     registry.attach("two", Path("logs/two"), since=500)
...     registry.detach("one")
...     print(list(registry.inputs()))
['two']
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from thalweg.errors import PlanError, StateError, did_you_mean

__all__ = ["Change", "MergeEntry", "MergeRegistry", "inputs_after"]


class Change(StrEnum):
    """What an entry changes."""

    JOINS = "joins"
    LEAVES = "leaves"
    SWITCH = "switch"


@dataclass(frozen=True, slots=True)
class MergeEntry:
    """An input joins, with the folder of its log, or leaves (`folder` is None); or the candidate
    replaces the current query (no name)."""

    name: str
    folder: str | None = None
    since: int | None = None
    candidate: bool = False
    """Whether the input belongs to the query that is to replace the current one."""

    @property
    def change(self) -> Change:
        if not self.name:
            return Change.SWITCH
        return Change.LEAVES if self.folder is None else Change.JOINS

    @property
    def joins(self) -> bool:
        return self.change is Change.JOINS


class MergeRegistry:
    """The entries in a folder, which may be added to by any process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._known: list[MergeEntry] = []

    def attach(
        self, name: str, folder: Path, since: int | None = None, *, candidate: bool = False
    ) -> None:
        """Let an input join: the log in a folder, which may not exist yet. It is right about every
        row that ends at `since` or later; without `since`, about every row. With `candidate` it
        belongs to the query that is to replace the current one (`SwitchedMerge`)."""
        self._add(MergeEntry(name, str(folder.absolute()), since, candidate))

    def detach(self, name: str) -> None:
        """Let an input leave."""
        self._add(MergeEntry(name))

    def switch(self) -> None:
        """Let the candidate replace the current query, whose inputs leave."""
        self._add(MergeEntry(""))

    def entries(self) -> list[MergeEntry]:
        """All entries so far, in order."""
        while (path := self._path(len(self._known))).exists():
            self._known.append(_read(path))
        return list(self._known)

    def inputs(self) -> dict[str, MergeEntry]:
        """The inputs that have joined and not left."""
        return inputs_after(self.entries())

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012d}.json"

    def _add(self, entry: MergeEntry) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            inputs = self.inputs()
            if entry.joins and entry.name in inputs:
                raise PlanError(
                    f"merge: there is an input {entry.name!r} already; detach it first."
                )
            if entry.change is Change.SWITCH and not any(e.candidate for e in inputs.values()):
                raise PlanError("merge: there is no candidate to switch to; attach one first.")
            if entry.change is Change.LEAVES and entry.name not in inputs:
                raise PlanError(
                    f"merge: there is no input {entry.name!r}{did_you_mean(entry.name, inputs)} "
                    f"There are: {', '.join(inputs) or 'none'}."
                )
            if self._write(len(self._known), entry):
                return

    def _write(self, number: int, entry: MergeEntry) -> bool:
        """Write an entry under a number; False if another writer has taken the number."""
        path = self._path(number)
        draft = path.with_name(f"_{path.name}.{os.getpid()}")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(asdict(entry), file)
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True


def inputs_after(entries: list[MergeEntry]) -> dict[str, MergeEntry]:
    """The inputs after all these entries."""
    inputs: dict[str, MergeEntry] = {}
    for entry in entries:
        inputs.pop(entry.name, None)
        if entry.change is Change.SWITCH:
            inputs = {
                name: replace(each, candidate=False)
                for name, each in inputs.items()
                if each.candidate
            }
        if entry.joins:
            inputs[entry.name] = entry
    return inputs


def _read(path: Path) -> MergeEntry:
    try:
        return MergeEntry(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as reason:
        raise StateError(
            f"{path}: this entry of a merge's registry is damaged: {reason}."
        ) from reason
