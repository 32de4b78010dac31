"""The sources of a query: each has a name of its own, a feed, and a place in the checkpoint."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import quote

from thalweg.errors import PlanError
from thalweg.plan.nodes import Node, Source, rebuild, walk
from thalweg.shards.sources.event_columns import EventColumns

__all__ = ["SourceFeed", "log_of", "name_sources", "without_feeds"]

_LONGEST = 120


class SourceFeed(Protocol):
    """Facts about a feed, from which a source reads its rows, whatever the engine."""

    @property
    def named(self) -> bool:
        """Whether the user gave the source its name."""

    @property
    def path(self) -> str | None:
        """The folder that rows are read from, where the source is named after it."""

    @property
    def times(self) -> EventColumns | None:
        """The columns with the times of rows; None: the feed gives elements, or makes its rows."""

    @property
    def makes_promises(self) -> bool:
        """Whether a promise may come among its rows."""

    @property
    def ends(self) -> bool:
        """Whether no rows arrive after those that are there at the start."""

    @property
    def fits_host(self) -> bool:
        """Whether a host can read it: its rows are read for one version of the queries after the
        other (see `spark.sources.versioned`)."""


def log_of(checkpoint: Path, source: str) -> Path:
    """The file that a feed may keep in the checkpoint, whatever its source is called.

    >>> log_of(Path("c"), "../x").as_posix()
    'c/thalweg/..%2Fx.files'
    """
    name = quote(source, safe=" ")
    if len(name) > _LONGEST:
        name = name[:_LONGEST] + hashlib.sha256(source.encode()).hexdigest()[:16]
    return checkpoint / "thalweg" / f"{name}.files"


def name_sources(root: Node) -> Node:
    """The plan with a name of its own for each of its sources.

    Two feeds under one name that the user gave are refused. Where the names were made from folders,
    as much of the path is added as tells them apart; other sources are numbered.
    """
    feeds: dict[str, list[SourceFeed]] = {}
    for node in walk(root):
        if isinstance(node, Source) and node.feed is not None:
            several = feeds.setdefault(node.name, [])
            if node.feed not in several:
                several.append(node.feed)
    clashes = {name: several for name, several in feeds.items() if len(several) > 1}
    if not clashes:
        return root
    for name, several in clashes.items():
        if any(feed.named for feed in several):
            raise PlanError(
                f"two sources of this query are called {name!r}, and read different rows; give each"
                " a name of its own (name=)."
            )
    names = {name: _different_names(name, several, feeds) for name, several in clashes.items()}

    def rename(node: Node) -> Node:
        if not isinstance(node, Source) or node.name not in clashes:
            return node
        return replace(node, name=names[node.name][clashes[node.name].index(node.feed)])

    return rebuild(root, rename)


def _different_names(
    name: str, feeds: list[SourceFeed], used: dict[str, list[SourceFeed]]
) -> list[str]:
    """A name for each feed, none of them in use."""
    paths = [() if feed.path is None else PurePosixPath(feed.path).parts for feed in feeds]
    for length in range(2, max(map(len, paths)) + 1):
        tails = ["/".join(parts[-length:]) for parts in paths]
        if len(set(tails)) == len(tails) and not used.keys() & set(tails):
            return tails
    numbered = (f"{name} {number}" for number in range(1, len(feeds) + len(used) + 1))
    free = [candidate for candidate in numbered if candidate not in used]
    return free[: len(feeds)]


def without_feeds(root: Node) -> Node:
    """The plan without feeds, as it is sent to the workers."""
    return rebuild(
        root,
        lambda node: (
            replace(node, feed=None) if isinstance(node, Source) and node.feed is not None else node
        ),
    )
