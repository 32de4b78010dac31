"""Checks of the sources that a host is given, and of the queries that read them."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.errors import PlanError
from thalweg.plan.nodes import Node, Source
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.shards.sources.source_feed import without_feeds
from thalweg.stream import Stream

__all__ = ["refuse_stamps", "sources_by_name", "without_feed"]


def sources_by_name(streams: Sequence[Stream]) -> dict[str, Source]:
    """By name: the sources of a host. Refuses streams that are no plain sources, or that a host
    cannot read."""
    found: dict[str, Source] = {}
    if not streams:
        raise PlanError("host: give the sources that queries will read.")
    for stream in streams:
        node = stream.node
        if not isinstance(node, Source) or node.feed is None:
            raise PlanError(
                "host: a source is a stream as from_files or from_generator gives it, with nothing "
                "done to it."
            )
        if not node.feed.fits_host:
            raise PlanError(
                f"host: the source {node.name!r} has no reader of ours that can go by versions; a "
                "host reads files and generators."
            )
        if node.name in found:
            raise PlanError(f"host: two sources are called {node.name!r}; give each a name= .")
        found[node.name] = node
    return found


def without_feed(node: Source) -> Source:
    """A source as it travels to the workers."""
    plain = without_feeds(node)
    assert isinstance(plain, Source)
    return plain


def refuse_stamps(name: str, query: Stream | Node) -> None:
    """Refuse a query with arrival times: they need a ticker, which a host has only for policies of
    its sources."""
    if stamp_periods(query.node if isinstance(query, Stream) else query):
        raise PlanError(f"the query {name!r} goes by arrival times; start it by itself.")
