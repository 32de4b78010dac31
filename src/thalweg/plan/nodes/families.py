"""What operators of a family have in common: those that look at one row, those that change one
lifetime, those that look at many rows, and of these the ones that treat groups apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from thalweg.expr import Expr, col
from thalweg.plan.expressions import START, Keys
from thalweg.plan.nodes.base import Grid, Node
from thalweg.plan.update_streams import UpdateStream
from thalweg.windows import Window

__all__ = [
    "GroupedOperator",
    "LifetimeOperator",
    "ManyRowsOperator",
    "RowOperator",
    "WindowOperator",
    "by_columns",
    "columns_of",
    "show_keys",
]


def columns_of(*expressions: Expr | None) -> frozenset[str]:
    """The columns that some expressions read."""
    return frozenset(c for expr in expressions if expr is not None for c in expr.columns())


def by_columns(names: tuple[str, ...]) -> Keys:
    """Columns as keys."""
    return tuple(map(col, names))


def show_keys(keys: tuple[str, ...]) -> str:
    """Grouping columns as `explain()` shows them."""
    return f" by {', '.join(keys)}" if keys else ""


@dataclass(frozen=True, eq=False)
class RowOperator(Node):
    """One input, one row at a time; lifetimes and progress stay as they are."""

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """What is computed for every row."""
        return ()

    @property
    def row_by_row(self) -> bool:
        return True

    @property
    def before_exchange(self) -> bool:
        return True

    @property
    def reads_start(self) -> bool:
        return START in columns_of(*self.expressions)

    @cached_property
    def endless_by(self) -> Node | None:
        return self.inputs[0].endless_by

    @cached_property
    def never_revises(self) -> bool:
        return self.inputs[0].never_revises

    @cached_property
    def progressing(self) -> frozenset[str]:
        """Of a column that has the same values in the output; a class that renames or computes
        columns says which those are."""
        return self.inputs[0].progressing & frozenset(self.schema.names)

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return output_grid

    @property
    def promise(self) -> str:
        return "t"

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        return None

    def result_keys(self, *keys: Keys) -> Keys | None:
        return keys[0] if columns_of(*keys[0]) <= set(self.schema.names) else None

    def lower_keys(self, keys: Keys) -> Keys | None:
        return keys if columns_of(*keys) <= set(self.inputs[0].schema.names) else None

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        return (None,)

    @property
    def identity(self) -> frozenset[str]:
        return frozenset()

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        return {}

    @property
    def covers_windows(self) -> bool:
        return False

    @property
    def reach(self) -> int | None:
        return None

    @property
    def state(self) -> str | None:
        return None


@dataclass(frozen=True, eq=False)
class LifetimeOperator(RowOperator):
    """One input, one row at a time; the payload stays and the lifetime changes, so that rows end
    and promises pass on as each class says."""

    @property
    def before_exchange(self) -> bool:
        return False

    @cached_property
    def endless_by(self) -> Node | None:
        return None

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return None


@dataclass(frozen=True, eq=False)
class ManyRowsOperator(Node):
    """A result row may follow from many input rows. The operator runs behind the exchange, and a
    class says where it can do with fewer promises or columns."""

    @property
    def row_by_row(self) -> bool:
        return False

    @property
    def before_exchange(self) -> bool:
        return False

    @property
    def reads_start(self) -> bool:
        return True

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return None

    def lower_keys(self, keys: Keys) -> Keys | None:
        return None

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        return (None,) * len(self.inputs)


@dataclass(frozen=True, eq=False)
class GroupedOperator(ManyRowsOperator):
    """One input whose rows are treated apart by the values of `grouping`, which the result has."""

    @property
    def grouping(self) -> tuple[str, ...]:
        """The columns of a group; none: all rows are one group."""
        return ()

    @cached_property
    def endless_by(self) -> Node | None:
        return None

    @cached_property
    def progressing(self) -> frozenset[str]:
        return frozenset()

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        return (by_columns(self.grouping),)

    def result_keys(self, *keys: Keys) -> Keys | None:
        return keys[0] if columns_of(*keys[0]) <= set(self.grouping) else None

    @property
    def identity(self) -> frozenset[str]:
        return frozenset(self.grouping)

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        return {"keys": (*keys, *self.grouping)}

    def update_stream(self, inputs: tuple[UpdateStream | None, ...]) -> UpdateStream | None:
        (found,) = inputs
        if found is None or not self.covers_windows:
            return super().update_stream(inputs)
        if not columns_of(*found.keys) <= set(self.grouping):
            raise found.refusal(
                self.label,
                f"the groups must contain the update key ({found.shown_keys}); rows of different "
                "keys would be mixed of which some are left out",
            )
        raise found.refusal(
            self.label,
            "a window that lost rows in the queue must have no answer, and this one would answer "
            "from the rows that are left. Let the queue serve whole windows (newest_window), "
            "aggregate before the queue, or use a source of all rows",
        )


class WindowOperator(GroupedOperator):
    """What is true of operators over windows of the temporal core, apart by keys."""

    input: Node
    window: Window
    keys: tuple[str, ...]

    covers_windows = True

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.keys

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return self.window.closing_grid

    @property
    def reach(self) -> int | None:
        return self.window.reach

    @property
    def promise(self) -> str:
        return self.window.promise
