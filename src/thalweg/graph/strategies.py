"""Strategies of a query graph: the rule of each operator, and the break points between them.

Both may change between any two steps, also while rows are on arcs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from thalweg.errors import PlanError
from thalweg.graph.fusing import Fusing
from thalweg.graph.rules import STRATEGIES
from thalweg.graph.state_table import Row, strategy_of

__all__ = ["Strategies"]


class Strategies(Fusing):
    """A graph whose order of work can be chosen."""

    def _undo_strategies(self) -> None:
        for pair in self.breaks:
            self.remove_break(*pair)
        self.split()

    def use(
        self,
        strategy: str,
        *,
        k: int | None = None,
        among: Iterable[str] | None = None,
        reason: str = "",
    ) -> None:
        """Run the operators of these ids, or all, by another strategy, from the next step on.

        Round-robin runs on paths, so that it sets break points where operators meet or divide.
        """
        chosen, _ = strategy_of(strategy, k)
        if among is None:
            self.split()
        names = [row.name for row in self.state] if among is None else list(among)
        rows = [self._row_named(name) for name in names]
        if STRATEGIES[chosen].only_paths:
            for row in rows:
                self._break_into_paths(row)
            rows = [row for row in rows if row.is_path]
        for row in rows:
            self.state.set_rule(row.name, strategy, k, reason)

    def _break_into_paths(self, row: Row) -> None:
        if row.operator is None:
            for behind in dict.fromkeys(row.succ):
                self.set_break(row.name, behind.name)
            for above in row.pred:
                self.set_break(above.name, row.name)
        elif len(row.pred) > 1:
            for above in dict.fromkeys(row.pred):
                self.set_break(above.name, row.name)

    def _row_named(self, name: str) -> Row:
        """The row of an operator; one that is part of a fused row is taken out of it."""
        if name not in self.state:
            for row in list(self.state):
                if any(member.id == name for member in row.members):
                    self._split(row)
        return self.state[name]

    def set_break(self, before: str, behind: str) -> None:
        """Make the arc between two operators a break point: the end of one part and the source of
        the next. Rows that wait on it stay there."""
        first, second = self._row_named(before), self._row_named(behind)
        links = [
            (first, second, arc)
            for row, arc in zip(second.pred, second.feeds, strict=True)
            if row is first
        ]
        if not links:
            if (before, behind) in self._breaks:
                return
            raise PlanError(f"no arc leads from {before} to {behind}.")
        for row, other, arc in links:
            self.state.unlink(row, other, arc)
        self._breaks[before, behind] = links
        self._changed()

    def remove_break(self, before: str, behind: str) -> None:
        """The inverse of `set_break`."""
        links = self._breaks.pop((before, behind), None)
        if links is None:
            raise PlanError(f"there is no break point between {before} and {behind}.")
        for row, other, arc in links:
            self.state.link(row, other, arc)
        for row in {links[0][0], links[0][1]}:
            if STRATEGIES[row.strategy].only_paths and not row.is_path:
                self.state.set_rule(row.name, "breadth-first")
        self._changed()

    @property
    def breaks(self) -> list[tuple[str, str]]:
        """The arcs that are break points: operator before and operator behind."""
        return list(self._breaks)

    def prefer(self, steepness: Mapping[str, float]) -> None:
        """Let the scheduler run the part with the steepest fall of bytes first, by the name of the
        row it begins with; without any, the part nearest to the output."""
        self._steepness = dict(steepness)
        self._changed()

    def table(self) -> str:
        """The state table as text."""
        return self.state.text()
