"""Fusing consecutive row operators into one row of the state table, and splitting them again."""

from __future__ import annotations

from itertools import pairwise

from thalweg.graph.fused import Fused, chains
from thalweg.graph.state_table import Row
from thalweg.graph.topology import Topology

__all__ = ["Fusing"]


class Fusing(Topology):
    """A graph whose row operators can run as one."""

    def fuse(self) -> None:
        """Run consecutive row operators as one row of the table."""
        counts = {operator: len(readers) for operator, readers in self.readers().items()}
        for end in self._ends.values():
            counts[end] += 1
        swaps: list[tuple[list[Row], list[Row]]] = []
        for chain in chains(self.operators, counts):
            rows = [self._row_of[member] for member in chain]
            linked = all(a.succ == (b,) for a, b in pairwise(rows))
            empty = all(not row.operator.port() >= 0 for row in rows if row.operator is not None)
            if linked and empty and all(row.name in self.state for row in rows):
                fused = Row("+".join(row.name for row in rows), Fused(chain))
                swaps.append((rows, [fused]))
        self._replace(swaps)

    def split(self) -> None:
        """The inverse of `fuse`: a row of the table for every operator."""
        self._split(*(row for row in self.state if len(row.members) > 1))

    def _split(self, *fused: Row) -> None:
        self._replace([([row], self._members(row)) for row in fused])

    def _members(self, fused: Row) -> list[Row]:
        """A row for each operator of a fused one, linked among themselves."""
        rows = [Row(member.id, member) for member in fused.members]
        for row, behind in pairwise(rows):
            assert behind.operator is not None
            self.state.link(row, behind, behind.operator.inputs[0])
        return rows

    def _replace(self, swaps: list[tuple[list[Row], list[Row]]]) -> None:
        """Put rows in the place of others: one fused row for several, or several for one. The
        table is put in order once, for all of them."""
        if not swaps:
            return
        for old, new in swaps:
            self._put_between(old, new)
        first = {old[0]: new for old, new in swaps}
        replaced = {row for old, _ in swaps for row in old}
        ordered: list[Row] = []
        for row in self.state:
            ordered += first.get(row, [] if row in replaced else [row])
        self.state.order(ordered)
        self._changed()

    def _put_between(self, old: list[Row], new: list[Row]) -> None:
        """Link new rows to the predecessors and successors of the old ones."""
        first, last = old[0], old[-1]
        new[0].pred, new[0].feeds, new[-1].succ = first.pred, first.feeds, last.succ
        for above in first.pred:
            above.succ = tuple(new[0] if row is first else row for row in above.succ)
        for behind in last.succ:
            behind.pred = tuple(new[-1] if row is last else row for row in behind.pred)
        for row in new:
            row.strategy, row.k, row.reason = first.strategy, first.k, first.reason
            row.settle()
            for operator in row.members:
                self._row_of[operator] = row
        for pair, links in self._breaks.items():
            self._breaks[pair] = [
                (new[-1] if row is last else row, new[0] if behind is first else behind, arc)
                for row, behind, arc in links
            ]
