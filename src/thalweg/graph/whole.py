"""The time from which the windows of a query that is added to a running host are complete.

If the newest admitted row of a source starts at t, all rows that start after t arrive after the
query was added; rows up to t may have arrived before it. An operator may move times: the promise
that it would make if its source promised t + 1 is the first time of its output with the same
property. Windows must not begin before the latest such time over all operators.
"""

from __future__ import annotations

from collections.abc import Mapping

from thalweg.graph.build import build_graph
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.consistency import Consistency
from thalweg.plan.nodes import Node

__all__ = ["whole_since"]


def whole_since(plan: Node, newest: Mapping[str, int]) -> int:
    """The first time from which windows are complete; `newest` is the start of the newest row that
    each source has admitted, if any.

    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).shift(5).tumbling(10).aggregate(n=tw.count())
    >>> whole_since(query.node, {"s": 12})
    18
    """
    graph, _ = build_graph(plan, Consistency(), rewrite=False)
    for name, time in newest.items():
        if name in graph.sources:
            schema = graph.sources[name].kernel.schema
            graph.send(name, Batch.empty(schema, Progress(time + 1)))
    passed = [operator.passed.cti for operator in graph.operators]
    return max((time for time in passed if time != INFINITY), default=MIN_TIME)
