"""SQL: queries as text, for both engines.

>>> import thalweg as tw
>>> packets = tw.source("packets", {"srcIP": "string", "len": "int64"}, disorder="1 min")
>>> windows = "[RANGE 10 minutes, SLIDE 1 minute, WA ts]"
>>> tw.sql(f"SELECT srcIP, count(*) AS n {windows} FROM Main GROUP BY srcIP", Main=packets)
<Stream window_aggregate (srcIP string, n int64)>

A query becomes the same plan that the fluent API would build. What cannot work is refused at its
place in the text:

>>> lenn = f"SELECT srcIP, sum(lenn) {windows} FROM Main GROUP BY srcIP"
>>> tw.sql(lenn, Main=packets)  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
thalweg.errors.SqlError: SQL, line 1, column 19: unknown column 'lenn'. Did you mean 'len'? Columns
here: srcIP, len, ts.
  SELECT srcIP, sum(lenn) [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM Main GROUP BY srcIP
                    ^^^^
  at ...
"""

from __future__ import annotations

from collections.abc import Mapping

from thalweg.errors import PlanError
from thalweg.stream import Stream, require_stream

__all__ = ["sql"]


def sql(
    query: str,
    streams: Mapping[str, Stream] | None = None,
    *,
    time: str | Mapping[str, str] = "ts",
    parameters: Mapping[str, object] | None = None,
    views: Mapping[str, str] | None = None,
    **named: Stream,
) -> Stream:
    """The stream that a query in SQL describes, over streams by name.

    `time` is what the query calls the time of a row, for all streams or by stream; a stream that
    was read from a time column has its name already. `parameters` are values for `:name` (and for a
    name where a window takes an amount). `views` are queries by name, which later ones and this one
    may read like streams.
    """
    all_streams = {**(streams or {}), **named}
    for name, stream in all_streams.items():
        require_stream(stream, f"sql: {name}")
    if not isinstance(query, str):
        raise PlanError(f"sql: the query is text; got {query!r}.")
    from thalweg.sql.query import compile_query  # sqlglot is loaded with the first query

    return compile_query(query, all_streams, time, parameters or {}, views or {})
