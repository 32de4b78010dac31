"""A module over the windows of a kind: rows, ranks, slide by tuple, calendar, users' own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from thalweg.errors import PlanError, WindowError
from thalweg.plan.nodes.apply import ModuleOperator
from thalweg.plan.nodes.base import Named, Node
from thalweg.plan.nodes.families import columns_of, show_keys
from thalweg.plan.nodes.schemas import require_known
from thalweg.plan.nodes.wid import WidOperator
from thalweg.plan.properties import StreamProperties
from thalweg.udm.module import Module, Params
from thalweg.windows import WindowKind

__all__ = ["WidApply"]


@dataclass(frozen=True, eq=False)
class WidApply(ModuleOperator, WidOperator):
    """Per window of a kind, and group in it, what the module makes of the rows, in canonical order.

    Windows, groups and lifetimes are those of `WidAggregate`. A row belongs to windows by its start
    s, and a module that knows time sees it as the event [s, s + 1). The output is stamped as in
    `WindowApply`: with the lifetime [a, b) of the window for `stamp` align, as the module stamped
    it for keep (not before a), cut to [a, b) for clip.
    """

    input: Node
    kind: WindowKind
    module: Module
    arguments: Named
    params: Params = ()
    keys: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    wid: str | None = None
    """A column for the id of the window."""
    stamp: str = "align"
    on_error: str = "fail"
    time_limit: float | None = None
    """Seconds that one call may take."""
    name: str | None = None
    """What the value of an aggregate is called."""

    not_state: ClassVar[frozenset[str]] = frozenset({"time_limit"})
    clip: ClassVar[str] = "none"  # type: ignore[misc]
    ends_matter: ClassVar[bool] = False
    never_revises = True
    state = "the rows that windows which are not settled need"

    def __post_init__(self) -> None:
        where = f"apply({self.module.name!r})"
        require_known((*self.columns, *self.kind.reads), self.input.schema, where)
        self._check_module(where)
        self._check_kind(where)
        outputs = self.module.output_schema(self.input_schema(), self.name)
        front = [self.input.schema.field(name) for name in self.columns]
        front += [] if self.wid is None else [pa.field(self.wid, pa.int64())]
        clash = [name for name in outputs.names if name in {field.name for field in front}]
        if clash:
            raise PlanError(f"{where}: the output {clash[0]!r} is also a key; rename one of them.")
        self.module.instance(self.params)
        self._settle(pa.schema([*front, *outputs]), StreamProperties(group_keys=self.columns))

    @property
    def reach(self) -> int | None:
        """Stamps that are kept may lie anywhere."""
        return super().reach if self.stamping.within_window else None

    def _check_kind(self, where: str) -> None:
        if not self.kind.is_bounded:
            raise WindowError(
                f"{where}: over {self.kind} the module would need every row there ever was; "
                "use a bounded aggregate, or a window with a range."
            )
        if self.stamping.from_change or self.stamping.before_window:
            raise PlanError(
                f"{where}: stamp={self.stamp!r} needs snapshot, hopping or tumbling windows; "
                "say align, keep or clip."
            )
        if not self.module.properties.deterministic or not self.ends_query:
            raise PlanError(
                f"{where}: windows of {self.kind} are computed again when they are revised, so that"
                " the module must be deterministic and must not fail (on_error='fail')."
            )
        self._check_numbers()

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        return (self.columns_of_windows(columns_of(*(expr for _, expr in self.arguments))),)

    @property
    def details(self) -> str:
        parts = f", partitions {', '.join(self.partition)}" if self.partition else ""
        named = f", id as {self.wid}" if self.wid is not None else ""
        windows = f"{self.kind}{parts}{show_keys(self.keys)}"
        text = f"{windows}: {self.shown_call}{named}; {self.kind.category}"
        return text + ("" if self.stamping.by_window else f", stamp {self.stamp}")

    def remarks(self) -> Iterator[str]:
        yield self.windows_remark
        if self.module.in_columns:
            yield "vectorised: all windows of a batch in one call"
