"""The registry: modules by name, namespace and version.

A full name is `namespace.name`; the part in front of the last dot may be left out where only one
namespace has the name, or where the name has none. `name@version` asks for one version, otherwise
the newest is used. What the shipped library and installed packages bring is looked for when it is
first asked for: a package names its Python modules under the entry point group `thalweg.modules`,
and importing them registers what they define.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from importlib.metadata import entry_points

from thalweg.errors import PlanError, did_you_mean
from thalweg.expr.user_calls import UserFunction
from thalweg.udm.module import Module

__all__ = ["DEFAULT", "ENTRY_POINTS", "Registry"]

ENTRY_POINTS = "thalweg.modules"
"""The entry point group of packages that bring modules."""
LIBRARY = "thalweg.udm.library"

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_SHIPPED = "std"
"""The namespace of the shipped library, which a name of the same spelling elsewhere hides."""

Entry = Module | UserFunction


class Registry:
    """
    >>> DEFAULT.find("median").name
    'std.median'
    """

    def __init__(self, load: Callable[[], None] | None = None) -> None:
        self._entries: dict[str, dict[str, Entry]] = {}
        self._origins: dict[tuple[str, str], tuple[str, str]] = {}
        self._load = load

    def add(self, module: Module) -> None:
        """Register a module. A definition that is run again, as in a notebook, replaces itself."""
        self._put(module, module.origin)

    def add_function(self, function: UserFunction, origin: tuple[str, str]) -> None:
        self._put(function, origin)

    def _put(self, entry: Entry, origin: tuple[str, str]) -> None:
        if not _NAME.fullmatch(entry.name):
            raise PlanError(
                f"{entry.name!r} is no name for a module: letters, digits and _, with dots between "
                "namespaces."
            )
        mark = entry.name, entry.version
        before = self._origins.get(mark)
        if before is not None and before != origin:
            raise PlanError(
                f"the module {entry.name}@{entry.version} is already defined by {'.'.join(before)};"
                " give yours another version=, another name, or a namespace (as in 'mine.name')."
            )
        self._origins[mark] = origin
        self._entries.setdefault(entry.name, {})[entry.version] = entry

    def find(self, name: str) -> Module:
        """The aggregate or operator of a name."""
        entry = self._find(name)
        if isinstance(entry, Module):
            return entry
        if entry is not None:
            raise PlanError(
                f"{name!r} is a function of single events; use it in where, select or a join "
                "predicate."
            )
        module_names = sorted(
            full_name
            for full_name, versions in self._entries.items()
            if isinstance(next(iter(versions.values())), Module)
        )
        short = {entry.rpartition(".")[2]: entry for entry in module_names}
        raise PlanError(
            f"no module {name!r}{did_you_mean(name, [*module_names, *short])} There are: "
            f"{', '.join(module_names) or 'none'}."
        )

    def find_function(self, name: str) -> UserFunction | None:
        """The function of a name, None when there is none."""
        entry = self._find(name)
        return entry if isinstance(entry, UserFunction) else None

    def _find(self, name: str) -> Entry | None:
        bare, _, version = name.partition("@")
        full = self._full_name(bare)
        if full is None and self._load is not None:
            self.load()
            full = self._full_name(bare)
        if full is None:
            return None
        versions = self._entries[full]
        if not version:
            return versions[max(versions, key=_order)]
        if version not in versions:
            raise PlanError(
                f"the module {full!r} has no version {version!r}; it has "
                f"{', '.join(sorted(versions, key=_order))}."
            )
        return versions[version]

    def _full_name(self, name: str) -> str | None:
        if name in self._entries:
            return name
        found = [full_name for full_name in self._entries if full_name.endswith(f".{name}")]
        own = [
            full_name for full_name in found if not full_name.startswith(f"{_SHIPPED}.")
        ] or found
        if len(own) > 1:
            raise PlanError(
                f"several modules are called {name!r}: {', '.join(sorted(own))}; say which, with "
                "its namespace."
            )
        return own[0] if own else None

    def load(self) -> None:
        """Import the shipped library and what installed packages bring, once."""
        load, self._load = self._load, None
        if load is not None:
            load()

    def all(self) -> list[Entry]:
        """Every version of everything, by name."""
        self.load()
        return [
            self._entries[name][version]
            for name in sorted(self._entries)
            for version in sorted(self._entries[name], key=_order)
        ]


def _order(version: str) -> tuple[tuple[int, int, str], ...]:
    """Versions part by part: numbers by size, before text."""
    return tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.split(r"[.\-+]", version)
    )


def _load_everything() -> None:
    importlib.import_module(LIBRARY)
    for entry in entry_points(group=ENTRY_POINTS):
        entry.load()


DEFAULT = Registry(_load_everything)
"""The registry that decorators write to and queries read from."""
