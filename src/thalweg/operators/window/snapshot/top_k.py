"""Top-k over snapshots: per group and snapshot the rows whose rank is at most k, each living as
long as the snapshot.

Ranks, ties and nulls: see `ranking`. State: see `kernel`.
"""

from __future__ import annotations

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.ranking import ORDER, Ranking
from thalweg.operators.window.snapshot.kernel import SnapshotKernel
from thalweg.operators.window.snapshot.snapshots import Snapshots
from thalweg.plan.nodes import TopK
from thalweg.state import Hits

__all__ = ["TopKKernel"]


class TopKKernel(SnapshotKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).top_k(1, by="v", rank="place")
    >>> tw.table(query, {"s": [tw.insert({"v": 1}, 1, 5), tw.insert({"v": 2}, 1, 3)]})
    [(1, 3, {'v': 2, 'place': 1}), (3, 5, {'v': 1, 'place': 1})]
    """

    what = "TopK"

    def __init__(self, node: TopK, consistency: Consistency) -> None:
        self._ranking = Ranking(node)
        super().__init__(node.schema, self._ranking.schema, node.keys, consistency)

    def project(self, batch: Batch) -> Delta:
        return self._ranking.project(batch)

    def answer(self, rows: Hits, snapshots: Snapshots, alive: Codes) -> tuple[Rows, Codes]:
        member, window = snapshots.members(alive)
        best, rank = self._ranking.best(rows.column(ORDER), member, window)
        which = member[best]
        columns = [rows.column(name, which) for name in self._ranking.shown]
        return self._ranking.answer(columns, rank), window[best]
