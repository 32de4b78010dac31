"""Streams in windows, and what is computed in each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from thalweg.errors import PlanError, WindowError
from thalweg.expr import Expr, ExprLike, as_expr, col
from thalweg.model.time import Duration
from thalweg.model.type_names import shown_columns
from thalweg.plan import nodes
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.applying import Handling, ModuleLike, ModuleUse, apply_node
from thalweg.plan.clock import resolve_expression
from thalweg.plan.expressions import START, unchanged
from thalweg.plan.nodes import Node
from thalweg.plan.nodes.panes import Flush, Table, in_panes
from thalweg.plan.other_names import unknown_method
from thalweg.plan.strategies import Volume
from thalweg.plan.window_joins import side_by_side
from thalweg.stream import streams
from thalweg.stream.arguments import filled_groups, refuse_moved
from thalweg.windows import Window, WindowKind

if TYPE_CHECKING:
    from thalweg.stream.streams import Stream

__all__ = [
    "MarkedWindows",
    "WindowedStream",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WindowedStream:
    """A stream in windows (of groups), waiting for what to compute in each."""

    node: Node
    keys: tuple[str, ...]
    window: Window | WindowKind
    partition: tuple[str, ...] = ()
    expected: Volume | None = None
    table: Table | None = None
    sources: str | None = None
    filled: tuple[tuple[Any, ...], ...] | None = None
    id_column: str | None = None
    strategy: str | None = None

    def __repr__(self) -> str:
        grouped = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"<WindowedStream {self.window}{grouped} of ({shown_columns(self.node.schema)})>"

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown_method(self, name)

    @property
    def _groups(self) -> tuple[str, ...]:
        """The columns that tell the answers of one window apart."""
        return (*self.partition, *(key for key in self.keys if key not in self.partition))

    def expecting(
        self, *, tuples: float | None = None, groups: float = 1, sources: str | None = None
    ) -> WindowedStream:
        """The same windows, with the number of tuples a window and groups a pane to expect: what
        the choice of an evaluation rests on.

        `sources` names the column with the origin of a row, where some origins are behind
        others: an adaptive evaluation then takes into account what has not come yet.
        """
        return replace(
            self, expected=None if tuples is None else Volume(tuples, groups), sources=sources
        )

    def two_level(
        self, slots: int, *, flush: Flush = "lazy", every: int = 160, late: int = 2
    ) -> WindowedStream:
        """The same windows, summed in a table of fixed size first, then rolled up.

        A sum leaves the table when its place is needed, and at most `late` windows after its own is
        over: `flush` "lazy" leaves it at that, "slow" sends one such sum for every `every` rows,
        "at end" all of them when a window ends.
        """
        return replace(self, table=Table(slots, flush, every, late))

    def fill(self, groups: Iterable[Any] | None = None) -> WindowedStream:
        """The same windows, also where they are empty: `groups` lists those that get a row for
        empty windows too (values, or tuples for several keys); a stream without groups needs
        none."""
        if isinstance(self.window, WindowKind):
            raise WindowError(
                "fill: only hopping and tumbling windows have empty windows to fill, not "
                f"{self.window}."
            )
        return replace(self, filled=filled_groups(self.node.schema, self.keys, groups))

    def with_id(self, name: str) -> WindowedStream:
        """The same windows; `name` is the column for a window's id, where windows have one: window
        w over time ends `hop * (w + 1)` after the origin."""
        if not isinstance(self.window, WindowKind) and self.window.grid is None:
            raise WindowError(
                f"with_id: the id of a window of {self.window} is its start; read `_start` of the "
                "answers."
            )
        return replace(self, id_column=name)

    def using(self, strategy: str) -> WindowedStream:
        """The same windows, evaluated in one of the ways that `explain` lists; without it the
        cheapest is taken."""
        return replace(self, strategy=strategy)

    def aggregate(
        self,
        aggregates: Mapping[str, AggregateCall | ModuleUse] | None = None,
        /,
        **named: AggregateCall | ModuleUse,
    ) -> Stream:
        """One row for each window that has rows: the keys and the aggregates, `n=count(),
        total=sum_("x")`, or the same as a mapping of any names. A user's own aggregate stands among
        them as `tw.module(...)`.

        How windows are evaluated, filled and numbered is said before: `using`, `fill`, `with_id`.
        """
        if not isinstance(aggregates or {}, Mapping):
            raise PlanError(
                f"aggregate: give each its name, n=count(); got {aggregates!r} without."
            )
        all_aggregates = {**(aggregates or {}), **named}
        if any(isinstance(aggregate, ModuleUse) for aggregate in all_aggregates.values()):
            return self._with_modules(all_aggregates)
        calls = tuple((name, self._read(name, call)) for name, call in all_aggregates.items())
        if isinstance(self.window, WindowKind):
            return streams.Stream(
                nodes.WidAggregate(
                    self.node,
                    self.window,
                    calls,
                    self.keys,
                    self.partition,
                    self.id_column,
                    self.strategy,
                )
            )
        whole = nodes.WindowAggregate(
            self.node,
            self.window,
            calls,
            self.keys,
            self.filled,
            self.strategy,
            self.expected,
            self.sources,
        )
        if self.table is None:
            return self._numbered(streams.Stream(whole))
        halves = in_panes(whole, self.table)
        if halves is None:
            raise WindowError(
                "two_level: partial sums need counts or sums of whole numbers, windows whose size "
                "is a multiple of their hop, and no fill."
            )
        return self._numbered(streams.Stream(halves))

    def _numbered(self, answers: Stream) -> Stream:
        """Answers of windows on a grid with the ids of the windows."""
        name = self.id_column
        window = None if isinstance(self.window, WindowKind) else self.window.grid
        if name is None or window is None:
            return answers
        number = (col(START) + (window.size - window.origin)) // window.hop - 1
        rest = [column for column in answers.schema.names if column not in self.keys]
        return streams.Stream(
            nodes.Select(answers.node, (*unchanged(self.keys), (name, number), *unchanged(rest)))
        )

    def _with_modules(self, given: Mapping[str, AggregateCall | ModuleUse]) -> Stream:
        """Aggregates of both sorts: each module by itself, joined where group and window are the
        same."""
        if isinstance(self.window, WindowKind) and len(given) > 1 and self.id_column is None:
            # Two windows over rows may stand at one instant: their ids tell them apart.
            free = "window_id"
            while free in self._groups or free in given:
                free += "_"
            return self.with_id(free)._with_modules(given).select(*self._groups, *given)
        plain = {
            name: aggregate
            for name, aggregate in given.items()
            if not isinstance(aggregate, ModuleUse)
        }
        parts = [self.aggregate(plain).node] if plain else []
        for name, aggregate in given.items():
            if isinstance(aggregate, ModuleUse):
                mapping = [dict(aggregate.named)] if aggregate.named else []
                parts.append(
                    self.apply(
                        aggregate.module,
                        *aggregate.columns,
                        *mapping,
                        params=aggregate.params,
                        name=name,
                    ).node
                )
        keys = self._groups if self.id_column is None else (*self._groups, self.id_column)
        return streams.Stream(side_by_side(parts, keys)).select(*keys, *given)

    def _read(self, name: str, call: object) -> AggregateCall:
        """An aggregate over the rows of this stream, as its user means it."""
        if not isinstance(call, AggregateCall):
            raise PlanError(
                f"aggregate: {name}={call!r} is not an aggregate; write {name}=count() or "
                f"{name}=sum_('column').{refuse_moved(name)}"
            )

        def read(expr: Expr | None) -> Expr | None:
            return None if expr is None else resolve_expression(expr, self.node)

        return replace(call, of=read(call.of), by=read(call.by), where=read(call.where))

    def apply(
        self,
        module: ModuleLike,
        /,
        *columns: ExprLike | Mapping[str, ExprLike],
        params: Mapping[str, Any] | None = None,
        clip: str | None = None,
        stamp: str | None = None,
        on_error: str = "fail",
        time_limit: Duration | None = "1 min",
        name: str | None = None,
        **named: ExprLike,
    ) -> Stream:
        """What a module makes of each window: by its name, or the function or class itself.

        `columns`, or `input=expression` (or a mapping), say what the module's inputs are; without
        any it gets the columns of the same names. `params` initialise it. `clip` (none, left,
        right, full) cuts the lifetimes that it sees, `stamp` (align, keep, clip, time-bound,
        unrestricted) says how long its output lives; both are the module's choice unless given.
        `on_error` is `fail` or `skip`; a call that takes longer than `time_limit` is an error.
        `name` is the column of an aggregate.
        """
        plain = tuple(column for column in columns if not isinstance(column, Mapping))
        for mapping in (column for column in columns if isinstance(column, Mapping)):
            named = {**mapping, **named}
        node = apply_node(
            self.node,
            self.window,
            self.keys,
            ModuleUse(module, plain, named, params),
            Handling(clip, stamp, on_error, time_limit, name),
            partition=self.partition,
            wid=self.id_column,
        )
        if self.id_column is not None and not node.stamping.by_window:
            raise WindowError(
                f"with_id: the module stamps its output (stamp={node.stamp!r}); the id of a window "
                "goes with stamp='align'."
            )
        return self._numbered(streams.Stream(node))

    def top_k(
        self, k: int, *, by: ExprLike, descending: bool = True, rank: str | None = None
    ) -> Stream:
        """The rows of each window with the k best values of `by`; ties are kept whole."""
        if isinstance(k, bool) or not isinstance(k, int):
            raise WindowError(f"top_k: k must be a whole number; got {k!r}.")
        if isinstance(self.window, WindowKind):
            raise WindowError(
                f"top_k: {self.window} has no ranking; use snapshot, tumbling or hopping windows."
            )
        return streams.Stream(
            nodes.TopK(self.node, k, as_expr(by), descending, rank, self.keys, self.window)
        )


class MarkedWindows(WindowedStream):
    """Whole windows that an update queue serves. All rows of a window start where it does, and that
    is their mark: rows of one key and start are those of a window, whichever windows overlap it."""

    def aggregate(
        self,
        aggregates: Mapping[str, AggregateCall | ModuleUse] | None = None,
        /,
        **named: AggregateCall | ModuleUse,
    ) -> Stream:
        """As `WindowedStream.aggregate`; one row for each window that was served."""
        source = self.node
        assert isinstance(source, nodes.Source) and source.conflation is not None
        assert source.conflation.window is not None
        answers = super().aggregate(aggregates, **named)
        return answers.set_duration(source.conflation.window.size)
