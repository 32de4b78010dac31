"""What every logical node shares: its inputs, its schema, and what is true of it.

Every node is frozen and checked when it is built: schemas, types and windows that make no sense are
refused here, with the user's file and line. A node used twice in a query is one node: plans are
DAGs, compared by identity.

What the rules, the two engines and `explain` read of an operator is a *fact*, and its class states
it (`FACTS` lists them). The base class gives the answer that is safe for an operator of
which nothing is known: it looks at all rows, may hold everything for ever, may revise everything,
runs in one bucket and promises nothing. Families of operators (`families`) state what all of them
share.

In the formulas R is the table (bag of rows (s, e, p)) of the input, and R' the table of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Self

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.expr import Expr, is_monotone_in
from thalweg.model.batch import CONTROL_COLUMNS
from thalweg.model.names import is_internal
from thalweg.model.type_names import shown_columns
from thalweg.plan.expressions import START, Keys, Named
from thalweg.plan.properties import StreamProperties
from thalweg.plan.update_streams import UpdateStream
from thalweg.progress.grids import Grid

__all__ = ["FACTS", "Grid", "Named", "Node"]

FACTS = (
    "row_by_row",
    "before_exchange",
    "reads_start",
    "endless_by",
    "never_revises",
    "progressing",
    "useful_promises",
    "divided_by",
    "result_keys",
    "lower_keys",
    "columns_read",
    "identity",
    "group_changes",
    "covers_windows",
    "reach",
    "state",
    "promise",
    "details",
)
"""The facts that a node class, or the family it belongs to, must state."""


@dataclass(frozen=True, eq=False)
class Node:
    """The base of all nodes. Subclasses set `schema` and `properties` when they are built."""

    schema: pa.Schema = field(init=False, repr=False)
    properties: StreamProperties = field(init=False, repr=False)

    state_version: ClassVar[int] = 1
    """Part of the signature; raised when the same settings come to mean another state."""
    not_state: ClassVar[frozenset[str]] = frozenset()
    """Settings that saved state does not depend on."""
    whole_runs: ClassVar[bool] = False
    """Whether all rows of one start leave in one batch, and batches in order of their starts."""
    internal_columns: ClassVar[bool] = False
    """Whether it makes columns whose names users cannot have (see `model.names`)."""

    # --------------------------------------------------------------------------------------------
    # structure

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """The streams that this node reads: its fields that are nodes, or tuples of nodes."""
        return tuple(
            node for name in self._child_fields() for node in _nodes_in(getattr(self, name))
        )

    @property
    def contained(self) -> tuple[Node, ...]:
        """Queries that run inside this node."""
        return ()

    @property
    def children(self) -> tuple[Node, ...]:
        """Inputs, then contained queries."""
        return (*self.inputs, *self.contained)

    def with_children(self, *children: Node, **settings: Any) -> Self:
        """The same operator over other children, given in the order of `children`, and perhaps
        with other settings."""
        before = self.children
        if len(before) != len(children):
            raise PlanError(
                f"{self.label}: {len(before)} children, but {len(children)} were given."
            )
        if not settings and all(old is new for old, new in zip(before, children, strict=True)):
            return self
        fresh = iter(children)
        changes: dict[str, Any] = dict(settings)
        for name in self._child_fields():
            value = getattr(self, name)
            changes[name] = (
                next(fresh) if isinstance(value, Node) else tuple(islice(fresh, len(value)))
            )
        return replace(self, **changes)

    def _child_fields(self) -> tuple[str, ...]:
        return tuple(f.name for f in fields(self) if f.init and _nodes_in(getattr(self, f.name)))

    @cached_property
    def label(self) -> str:
        """The operator's name in `explain()` and in operator ids."""
        name = type(self).__name__
        return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")

    # --------------------------------------------------------------------------------------------
    # facts about rows

    @property
    def row_by_row(self) -> bool:
        """Whether every result row follows from one input row alone."""
        return False

    @property
    def before_exchange(self) -> bool:
        """Whether it may run before lateness is judged: it looks at one row, leaves the lifetime
        as it is, and has no part in progress."""
        return False

    @property
    def reads_start(self) -> bool:
        """Whether an expression of this operator reads `_start`."""
        return True

    @cached_property
    def endless_by(self) -> Node | None:
        """The operator, here or below, that gives rows no end; None where all rows end, or where
        only a source can tell."""
        return self

    @cached_property
    def never_revises(self) -> bool:
        """Whether the output has no adjusts when every window holds its answers until they are
        final."""
        return False

    @property
    def whole_runs_when_final(self) -> bool:
        """The same as `whole_runs`, when every window holds its answers until they are final."""
        return self.whole_runs

    # --------------------------------------------------------------------------------------------
    # facts about promises

    @cached_property
    def progressing(self) -> frozenset[str]:
        """The columns about which the output makes promises (`model.column_promises`), as it does
        about `_start`: the start of rows whose ends do not move, both times of a window join."""
        return frozenset()

    def progresses(self, expr: Expr) -> bool:
        """Whether rows that start at this expression would have promises: it rises with the start
        or with a progressing column. Only then can it be the time of a join or a window.

        >>> import thalweg as tw
        >>> a = tw.source("a", {"k": "int64"})
        >>> pairs = a.window_join(a, "k", window=tw.band(before=1, after=1)).node
        >>> sorted(pairs.progressing), pairs.progresses(tw.col("left_time") + 1)
        (['left_time', 'right_time'], True)
        """
        return bool(expr.columns()) and is_monotone_in(expr, {START, *self.progressing})

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        """The grid of the input promises that are of use when only output promises on `output_grid`
        are. None: any promise."""
        return None

    @property
    def promise(self) -> str:
        """In words: what this operator can promise once its inputs have promised t."""
        return "nothing before the end"

    # --------------------------------------------------------------------------------------------
    # facts about buckets and columns

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        """For each input the keys that bring rows together; rows that differ in a key never meet.
        Without keys all rows go to one bucket. None: no two rows need to be in one bucket."""
        return ((),) * len(self.inputs)

    def result_keys(self, *keys: Keys) -> Keys | None:
        """In terms of the output: keys by which the inputs lie in buckets. None: not visible."""
        return None

    def lower_keys(self, keys: Keys) -> Keys | None:
        """In terms of the inputs: keys of the output of a row operator. None: not possible."""
        return None

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        """For each input the columns that the result depends on; None: all, or the order of all."""
        return (None,) * len(self.inputs)

    def columns_needed(self, above: frozenset[str] | None) -> frozenset[str] | None:
        """Of a node with one input: the columns of it that are needed where `above` are those that
        are needed of the output; None: all."""
        (read,) = self.columns_read
        return read

    def carrying(self, columns: tuple[str, ...], below: Callable[[Node], Node]) -> Node | None:
        """The same operator over what `below` makes of each input, with further columns of it
        carried along unchanged. None: there are no such columns in its output."""
        return None

    @property
    def identity(self) -> frozenset[str]:
        """The columns whose values decide which rows are treated together, apart from all others: a
        filter on them may go below."""
        return frozenset()

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        """The fields that make this operator treat groups apart, inside a group-and-apply: `keys`
        are the grouping columns, `partitions` those of each input."""
        raise PlanError(f"group_apply: {self.label} cannot stand inside a group.")

    # --------------------------------------------------------------------------------------------
    # facts about time

    @property
    def covers_windows(self) -> bool:
        """Whether an answer is about all rows of a span of time: it is incomplete when some of them
        came before the query did, or were left out."""
        return True

    @property
    def reach(self) -> int | None:
        """A row of an input that ends at e has no part in answers that end later than e + reach;
        None: nothing is known, and feedback (`skip_before`) stops here."""
        return None

    def update_stream(self, inputs: tuple[UpdateStream | None, ...]) -> UpdateStream | None:
        """The output, where at least one input is an update stream (see `update_streams`): raises
        where rows that were left out would change it. An operator that looks at one row passes such
        a stream on with its key."""
        found = next(each for each in inputs if each is not None)
        if not self.row_by_row or len(inputs) > 1:
            raise found.refusal(
                self.label, "it would be computed from the rows that are left, not from all rows"
            )
        keys = self.result_keys(found.keys)
        if keys is None:
            raise found.refusal(
                self.label,
                f"the update key ({found.shown_keys}) must be passed on unchanged; it may be "
                "renamed",
            )
        if found.window is not None and not self.before_exchange:
            raise found.refusal(self.label, "rows of served windows start where their window does")
        return replace(found, keys=keys)

    # --------------------------------------------------------------------------------------------
    # facts about state; text

    @property
    def state(self) -> str | None:
        """In words: what the operator keeps; None: nothing."""
        return "everything it has seen"

    @property
    def details(self) -> str:
        """What the operator does, on one line, for `explain()`."""
        return ", ".join(f"{name} {value}" for name, value in self.settings.items())

    def remarks(self) -> Iterator[str]:
        """Further lines for `explain()`."""
        return iter(())

    @property
    def settings(self) -> Mapping[str, object]:
        """The fields that are no streams."""
        children = set(self._child_fields())
        return {
            f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name not in children
        }

    @cached_property
    def signature(self) -> str:
        """Saved state fits an operator with the same signature: every setting, and the columns of
        every input. What `explain` prints has no part in it."""
        settings = ", ".join(
            f"{name}={_written(value)}"
            for name, value in self.settings.items()
            if name not in self.not_state
        )
        read = "; ".join(_written(node.schema) for node in self.inputs)
        return f"{type(self).__name__} {self.state_version}({settings}) over [{read}]"

    def kernel(self) -> object | None:
        """A new kernel of its own, for an operator that is defined outside of this package."""
        return None

    def _carries_internal(self) -> bool:
        """Whether internal columns may be among its columns."""
        return self.internal_columns

    def _settle(self, schema: pa.Schema, properties: StreamProperties) -> None:
        if not len(schema):
            raise PlanError(f"{self.label}: a stream needs at least one column.")
        clash = [n for n in schema.names if n in CONTROL_COLUMNS]
        if clash:
            raise PlanError(
                f"{self.label}: {clash[0]!r} is the name of a control column; choose another."
            )
        hidden = [n for n in schema.names if is_internal(n) and not self._carries_internal()]
        if hidden:
            raise PlanError(
                f"{self.label}: the name {hidden[0]!r} begins with the character that internal "
                "columns begin with; choose another."
            )
        double = {n for n in schema.names if schema.names.count(n) > 1}
        if double:
            raise PlanError(
                f"{self.label}: the column {min(double)!r} would appear twice; rename one of them."
            )
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "properties", properties)
        # Facts that follow from those of the inputs are settled on the way up, so that a long chain
        # of operators needs no deep recursion.
        _ = self.endless_by, self.never_revises, self.progressing


def _nodes_in(value: object) -> tuple[Node, ...]:
    if isinstance(value, Node):
        return (value,)
    if isinstance(value, tuple) and value and all(isinstance(item, Node) for item in value):
        return value
    return ()


def _written(value: object) -> str:
    """A setting as text that is the same in every process."""
    if isinstance(value, pa.Schema):
        return shown_columns(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value))})"
    return str(value) if isinstance(value, Expr) else repr(value)
