"""Why an answer is not final yet: which operator waits for which promise, since when, and what
would release it.

Every operator defines which promise it needs on each of its inputs to promise a time itself
(`Operator.needs`). From the end of the query backwards, an input whose promise is short of that is
followed to the operator it comes from, down to the sources:

    blame(operator, t) = for each input that lacks needs(t): the source itself, or blame(the
    operator before, needs(t))

So exactly the missing promises are named: when those sources have promised those times, the answer
is final.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from thalweg.graph.graph_operator import GraphOperator
from thalweg.graph.query_graph import QueryGraph
from thalweg.model.clocks import Clock, shown_time
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.merging.named_inputs import NamedInputsKernel
from thalweg.operators.source.ingress import IngressKernel
from thalweg.progress.source_progress import FIRST_PROMISE

__all__ = [
    "Step",
    "Wait",
    "Why",
    "explain_wait",
    "late_counts",
    "late_notes",
    "notes_of",
    "shown_clock",
    "shown_time",
    "waits_of",
]


@dataclass(frozen=True, slots=True)
class Step:
    """An operator that waits: it needs the promise `needs` on its input `port`; that has promised
    `has`."""

    operator: str
    port: int
    ports: int
    needs: int
    has: int

    def __str__(self) -> str:
        return self.line()

    def line(self, clock: Clock = None) -> str:
        """With times as a clock shows them."""
        which = (
            "its input"
            if self.ports == 1
            else (
                f"its {'left' if self.port == 0 else 'right' if self.ports == 2 else self.port} "
                "input"
            )
        )
        if self.needs < FIRST_PROMISE:
            return f"{self.operator} needs a promise of {which}; there is none"
        return (
            f"{self.operator} needs {which} up to {shown_time(self.needs, clock)}; "
            f"it has come to {shown_time(self.has, clock)}"
        )


@dataclass(frozen=True, slots=True)
class Wait:
    """A missing promise: its source, the time it must reach, since when it is missing (clock, in
    microseconds), and what would release it."""

    source: str
    needs: int
    has: int
    since: int | None
    release: tuple[str, ...]
    path: tuple[Step, ...]
    """The operators that wait, from the end of the query down to the source."""

    @property
    def operator(self) -> str:
        """The operator that waits for the source: the last one on the way where inputs meet or
        windows close."""
        for at in range(len(self.path) - 1, -1, -1):
            step = self.path[at]
            if step.ports > 1 or at == 0 or step.needs != self.path[at - 1].needs:
                return step.operator
        return self.source

    def lines(self, clock: Clock = None) -> Iterator[str]:
        yield from (step.line(clock) for step in self.path)
        since = "" if self.since is None else f" since {shown_clock(self.since)}"
        promised = shown_time(self.has, clock)
        must = "make a promise"
        if self.needs >= FIRST_PROMISE:
            must = f"promise {shown_time(self.needs, clock)}"
        yield f"source {self.source} has promised {promised}{since}; it must {must}"
        yield from (f"  released by {way}" for way in self.release)


@dataclass(frozen=True, slots=True)
class Why:
    """Why the answer that starts at `time` is not final; `settled` when it is."""

    time: int
    promise: int
    waits: tuple[Wait, ...]
    notes: tuple[str, ...] = ()
    clock: Clock = None
    """How times of the query are shown."""

    @property
    def settled(self) -> bool:
        return self.promise > self.time or self.promise == INFINITY

    def __str__(self) -> str:
        head = f"the query has promised {shown_time(self.promise, self.clock)}"
        first = self.time if self.time > MIN_TIME else None
        what = "anything" if first is None else f"what starts at {shown_time(first, self.clock)}"
        if self.settled:
            lines = [f"{head}: {what} is final."]
        elif first is None:
            lines = [f"nothing is final yet: {head}."]
        else:
            lines = [f"{what} is not final: {head}."]
        for wait in self.waits:
            lines += [f"  {line}" for line in wait.lines(self.clock)]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def explain_wait(
    graph: QueryGraph, promise: Progress, time: int | None, group: Mapping[str, Any] | None = None
) -> Why:
    """Why the answers that start at `time` are not final (by default: the first time that is not);
    `promise` is what the query has promised."""
    promised = promise_for(promise, group)
    target = promised if time is None else time
    settled = promised > target or promised == INFINITY
    waits = (
        ()
        if settled
        else tuple(waits_of(graph, graph.end, target + 1 if target < INFINITY else INFINITY, group))
    )
    return Why(target, promised, waits, (*late_notes(late_counts(graph)), *notes_of(graph)))


def promise_for(progress: Progress, group: Mapping[str, Any] | None) -> int:
    """The promise for a group, if `group` has all columns that promises are scoped by; else the
    common one."""
    named = group is not None and set(progress.scope_columns) <= set(group)
    if group is None or not named or not progress.speaks_of_groups:
        return progress.cti
    return progress.of(tuple(group[name] for name in progress.scope_columns))


def waits_of(
    graph: QueryGraph,
    operator: GraphOperator,
    time: int,
    group: Mapping[str, Any] | None = None,
    path: tuple[Step, ...] = (),
) -> Iterator[Wait]:
    """The missing promises for an operator to promise `time`."""
    if isinstance(operator.kernel, IngressKernel):
        yield _of_source(graph, operator, operator.kernel, time, group, path)
        return
    if isinstance(operator.kernel, NamedInputsKernel):
        merge = operator.kernel
        yield Wait(
            _source_name(graph, operator), time, merge.settled, None, merge.waits_for(), path
        )
        return
    named: set[str] = set()
    for port, needs in enumerate(operator.kernel.needs(time)):
        promised = promise_for(operator.received.get(port, NO_PROGRESS), group)
        if promised >= needs:
            continue
        step = Step(operator.id, port, operator.kernel.ports, needs, promised)
        below = group if _same_columns(operator, port, group) else None
        for wait in waits_of(graph, operator.before[port], needs, below, (*path, step)):
            if wait.source not in named:
                named.add(wait.source)
                yield wait
    if not named:  # the operator cannot tell which input it waits for: follow all of them
        for port, reader in enumerate(operator.before):
            promised = promise_for(operator.received.get(port, NO_PROGRESS), group)
            step = Step(operator.id, port, operator.kernel.ports, promised + 1, promised)
            if promised < INFINITY:
                yield from waits_of(graph, reader, promised + 1, None, (*path, step))


def _same_columns(operator: GraphOperator, port: int, group: Mapping[str, Any] | None) -> bool:
    return group is not None and set(group) <= set(operator.before[port].kernel.schema.names)


def _source_name(graph: QueryGraph, operator: GraphOperator) -> str:
    return next((name for name, other in graph.sources.items() if other is operator), operator.id)


def _of_source(
    graph: QueryGraph,
    operator: GraphOperator,
    kernel: IngressKernel,
    time: int,
    group: Mapping[str, Any] | None,
    path: tuple[Step, ...],
) -> Wait:
    name = _source_name(graph, operator)
    release = kernel.needed(time, group)
    return Wait(name, time, promise_for(kernel.progress, group), kernel.since, tuple(release), path)


def late_counts(graph: QueryGraph) -> dict[str, int]:
    """By source: how many rows came late."""
    kernels = {name: operator.kernel for name, operator in graph.sources.items()}
    return {
        name: kernel.ledger.count
        for name, kernel in kernels.items()
        if isinstance(kernel, IngressKernel)
    }


def late_notes(counts: Mapping[str, int]) -> Iterator[str]:
    """A sentence for each source of which rows came late."""
    for name, count in counts.items():
        if count:
            yield f"{count} rows of source {name} came late; see its ledger"


def notes_of(graph: QueryGraph) -> Iterator[str]:
    """Other reasons why a result may be missing."""
    for name, operator in graph.sources.items():
        kernel = operator.kernel
        if not isinstance(kernel, IngressKernel):
            continue
        for case in kernel.cases:
            since = "" if case.since is None else f" since {shown_clock(case.since)}"
            rows = f"{case.rows} rows, the last at {case.claims}"
            yield (
                f"source {name}: {case.key!r} is in quarantine{since}, its clock is {case.reason}; "
                f"{rows}"
            )
        yield from kernel.warnings
    for operator in graph.operators:
        yield from (f"{operator.id}: {text}" for text in operator.kernel.lacks())


def shown_clock(time: int) -> str:
    """A time of the clock, in microseconds since the epoch."""
    try:
        return str(datetime.fromtimestamp(time / 1_000_000, UTC).replace(tzinfo=None))
    except (OverflowError, ValueError, OSError):
        return str(time)
