"""The state table: operator -> (pred, succ, rule). The cycle reads nothing else.

The rows are the states of an automaton and the rules its transitions. A strategy is changed by
writing the rule of one row, a break point by writing two, while the graph runs and between any two
steps. Where several operators read one, a row of its own stands for the fork.

`pred` and `succ` leave out what lies behind a break point: there the row before is a sink and the
row behind it a source, and the scheduler runs each part by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from thalweg.errors import PlanError, did_you_mean
from thalweg.graph.arcs import Arc
from thalweg.graph.fused import Fused
from thalweg.graph.graph_operator import GraphOperator
from thalweg.graph.rules import RULES, STRATEGIES, Form, Rule, Strategy

__all__ = ["Row", "StateTable", "strategy_of"]


class Row:
    """A state: the operator that runs, its neighbours, and the rule that chooses among them."""

    __slots__ = (
        "feeds",
        "form",
        "hands_back",
        "in_order",
        "k",
        "name",
        "only",
        "operator",
        "patient",
        "pred",
        "reason",
        "rule",
        "signals",
        "strategy",
        "succ",
        "taken",
        "turn",
    )

    def __init__(self, name: str, operator: GraphOperator | Fused | None) -> None:
        self.name = name
        self.operator = operator
        """The operator or fused operators that are executed; None for a fork."""
        self.pred: tuple[Row, ...] = ()
        self.feeds: tuple[Arc, ...] = ()
        """The arc from each of `pred`."""
        self.succ: tuple[Row, ...] = ()
        self.signals: tuple[Row, ...] = ()
        """The rows at the ends of this row's promise arcs (see `enhanced`)."""
        self.strategy: Strategy = "depth-first"
        self.k = 0
        """How many elements are taken before the next decision; 0: a batch at a time."""
        self.reason = ""
        """Why a policy chose the strategy."""
        self.taken = 0
        self.turn = 0
        self.in_order = False
        """For a fork: whether the first consumer with input is always next, not the one whose turn
        it is."""
        self.patient = False
        """Whether the successor may have rows that it cannot take yet."""
        self.only: Arc | None = None
        """The input arc, if there is exactly one."""
        self.hands_back = False
        """Whether the row does nothing without input but ask its predecessor."""
        self.form: Form = "NOS"
        self.rule: Rule = RULES["depth-first", "NOS"]
        self.settle()

    def __repr__(self) -> str:
        return f"Row({self.name})"

    def more(self) -> bool:
        """Whether there is input that can be processed."""
        if self.only is not None:
            return self.only.size() > 0
        if self.operator is not None:
            return self.operator.port() >= 0
        return self.waiting_consumer() is not None

    def waiting_consumer(self) -> int | None:
        """For a fork: the index of the next consumer with input. The search begins after the
        consumers that had their turn."""
        consumers = self.succ
        for at in chain(range(self.turn, len(consumers)), range(self.turn)):
            if consumers[at].more():
                return at
        return None

    def ahead(self) -> Row | None:
        """The successor if it has input, else a row that a promise has reached by its arc."""
        if self.succ:
            first = self.succ[0]
            if first.more() if first.only is None else first.only.size():
                return first
        for row in self.signals:
            if row.more():
                return row
        return None

    def stalls(self) -> bool:
        """Whether the successor has rows but waits for others before it takes them."""
        if not self.patient:
            return False
        behind = self.succ[0]
        return any(
            arc.size() for row, arc in zip(behind.pred, behind.feeds, strict=True) if row is self
        )

    def step(self) -> None:
        """The execution step."""
        if self.operator is None:
            return
        if not self.k:
            self.operator.execute()
        else:
            self.taken += self.operator.execute(self.k - self.taken)

    def settle(self) -> None:
        """Look the rule up again, after a change of this row."""
        if self.operator is None:
            self.form = "Fork"
        elif not self.pred:
            self.form = "Source" if self.succ else "Source-Sink"
        else:
            self.form = "NOS" if self.succ else "Sink"
        self.rule = RULES[self.strategy, self.form]
        self.taken = 0
        inputs = [] if self.operator is None else self.operator.inputs
        self.only = inputs[0] if len(inputs) == 1 else None
        behind = self.succ[0].operator if self.succ else None
        self.patient = behind is not None and behind.waits_for_order
        self.hands_back = (
            STRATEGIES[self.strategy].backtracks_at_once
            and self.only is not None
            and len(self.succ) == 1
            and not self.patient
        )

    @property
    def members(self) -> list[GraphOperator]:
        """The operators it runs: none for a fork, several where they are fused."""
        return [] if self.operator is None else self.operator.members

    @property
    def label(self) -> str:
        """The rule as the table shows it."""
        facts = STRATEGIES[self.strategy]
        size = f"({self.k})" if facts.by_count else ""
        return f"{facts.short_name}{size}-{self.form}"

    @property
    def is_path(self) -> bool:
        """Whether a strategy for paths alone can go through this row."""
        return len(self.pred) <= 1 and len(self.succ) <= 1 and self.operator is not None


def strategy_of(name: str, k: int | None) -> tuple[Strategy, int]:
    """A strategy by name, checked, with its k (0 for all but k-batching)."""
    if name not in STRATEGIES:
        raise PlanError(
            f"the strategy must be one of {', '.join(STRATEGIES)} or "
            f"auto{did_you_mean(name, STRATEGIES)}"
        )
    strategy, facts = next(item for item in STRATEGIES.items() if item[0] == name)
    if not facts.by_count:
        if k is not None:
            raise PlanError(f"k= belongs to k-batching; {name} takes a batch at a time.")
        return strategy, 0
    if k is None or k < 1:
        raise PlanError("k-batching needs k=, the number of elements between two decisions.")
    return strategy, k


class StateTable:
    """All rows by name, each after those that it reads."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __getitem__(self, name: str) -> Row:
        if name not in self._rows:
            raise PlanError(
                f"the graph has no operator {name!r}{did_you_mean(name, self._rows)} Operators: "
                f"{', '.join(self._rows)}."
            )
        return self._rows[name]

    def add(self, row: Row) -> None:
        if row.name in self._rows:
            raise PlanError(f"the graph has an operator {row.name!r} already.")
        self._rows[row.name] = row

    def remove(self, row: Row) -> None:
        del self._rows[row.name]

    def order(self, rows: Sequence[Row]) -> None:
        """Give the rows another order."""
        self._rows = {row.name: row for row in rows}

    def set_rule(self, name: str, strategy: str, k: int | None = None, reason: str = "") -> None:
        """Give one operator another rule; effective from the next step on.

        Round-robin returns control where others backtrack, so that it runs on paths only: set
        break points where operators meet or divide, as `QueryGraph.use` does.
        """
        row = self[name]
        chosen, size = strategy_of(strategy, k)
        if STRATEGIES[chosen].only_paths and not row.is_path:
            raise PlanError(
                f"{chosen} runs on paths: {name} has {len(row.pred)} predecessors and "
                f"{len(row.succ)} successors; set break points there."
            )
        row.strategy, row.k, row.reason = chosen, size, reason
        row.settle()

    def link(self, row: Row, behind: Row, arc: Arc) -> None:
        """Let control pass from a row to the one behind it, along an arc."""
        row.succ = (*row.succ, behind)
        behind.pred, behind.feeds = (*behind.pred, row), (*behind.feeds, arc)
        row.settle()
        behind.settle()

    def unlink(self, row: Row, behind: Row, arc: Arc) -> None:
        """The inverse of `link`."""
        at = row.succ.index(behind)
        row.succ = row.succ[:at] + row.succ[at + 1 :]
        kept = [
            (other, feed)
            for other, feed in zip(behind.pred, behind.feeds, strict=True)
            if feed is not arc
        ]
        behind.pred = tuple(other for other, _ in kept)
        behind.feeds = tuple(feed for _, feed in kept)
        row.turn = 0
        row.settle()
        behind.settle()

    def entries(self) -> list[tuple[str, str, str, str]]:
        """(state, pred, succ, transition), one for each arc that leaves a fork."""
        found = []
        for row in self:
            pred = ", ".join(other.name for other in row.pred) or "-"
            if row.operator is None:
                found += [(row.name, pred, other.name, row.label) for other in row.succ]
            else:
                succ = ", ".join(other.name for other in row.succ) or "-"
                found.append((row.name, pred, succ, row.label))
        return found

    def text(self) -> str:
        """The table as text; behind a rule, why a policy chose it."""
        head = ("state", "pred", "succ", "transition")
        entries = [head, *self.entries()]
        wide = [max(len(entry[at]) for entry in entries) for at in range(4)]
        reasons = {row.name: row.reason for row in self if row.reason}
        lines, mentioned = [], set()
        for entry in entries:
            line = "  ".join(cell.ljust(width) for cell, width in zip(entry, wide, strict=True))
            reason = reasons.get(entry[0], "")
            if reason and entry[0] not in mentioned:
                line += f"  {reason}"
                mentioned.add(entry[0])
            lines.append(line.rstrip())
        return "\n".join(lines)
