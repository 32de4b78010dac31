"""The fluent API: a query is a sentence about streams.

>>> from thalweg.plan.aggregates import count, sum_
>>> packets = source("packets", {"src": "string", "len": "int64"}, late="drop", disorder="1 min")
>>> windows = packets.where("len > 40").group_by("src").hopping("10 min", "1 min")
>>> windows.aggregate(n=count(), bytes=sum_("len"))
<Stream window_aggregate (src string, n int64, bytes int64)>

A `Stream` wraps one logical node and never changes: every method gives a new stream. Whatever
cannot work (an unknown column, a sum of text, a window of no length) is refused on the line that
says it.
"""

from __future__ import annotations

from thalweg.stream.arguments import Columns, Keys, On, named_columns
from thalweg.stream.grouped import GroupedStream
from thalweg.stream.several import join_all, keys_by_name, merge
from thalweg.stream.sources import source
from thalweg.stream.streams import Stream, draws_streams, node_of, require_stream
from thalweg.stream.windowed import WindowedStream

__all__ = [
    "Columns",
    "GroupedStream",
    "Keys",
    "On",
    "Stream",
    "WindowedStream",
    "draws_streams",
    "join_all",
    "keys_by_name",
    "merge",
    "named_columns",
    "node_of",
    "require_stream",
    "source",
]
