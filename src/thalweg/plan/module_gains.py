"""What the declared properties of a module buy where it is applied, for `explain()`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from thalweg.udm.module import Module, Stamp
from thalweg.windows import Window

__all__ = ["ModuleWindows", "gains_of"]


class ModuleWindows(Protocol):
    """A module over windows of the temporal core."""

    @property
    def module(self) -> Module: ...

    @property
    def window(self) -> Window: ...

    @property
    def stamping(self) -> Stamp: ...

    @property
    def ends_matter(self) -> bool: ...

    @property
    def passes_cti(self) -> bool: ...

    @property
    def in_panes(self) -> bool: ...

    @property
    def at_once(self) -> bool: ...


def gains_of(node: ModuleWindows) -> Iterator[str]:
    """A line for each declared property."""
    yield from _gains_in_work(node)
    yield _gain_in_state(node)
    yield from _gains_in_order(node)


def _gains_in_work(node: ModuleWindows) -> Iterator[str]:
    """How the value of a window is computed."""
    module = node.module
    if node.in_panes:
        yield "mergeable: windows are put together from panes, rows are not kept"
    elif module.mergeable:
        yield (
            "mergeable: of no use here (panes need a hopping window, insert_only input and "
            "saved states)"
        )
    if module.incremental and not (node.in_panes or node.at_once):
        how = (
            "differential: rows taken back are removed"
            if module.differential
            else "rows taken back make a window start again"
        )
        yield f"incremental: a revised window sees only what changed; {how}"
    if module.in_columns:
        yield "vectorised: all windows of a batch in one call"
    if node.at_once:
        yield "deterministic: all answers are computed again rather than kept"
    elif module.properties.deterministic:
        yield "deterministic: long answers are computed again rather than kept"


def _gain_in_state(node: ModuleWindows) -> str:
    """When a window and its rows are dropped."""
    over = "a window and its rows are dropped when the CTI reaches the window's end"
    if node.module.properties.ignores_ends:
        return f"ignores ends: {over}"
    if not node.module.time_sensitive:
        return f"not time-sensitive: {over}"
    if not node.ends_matter:
        return f"right clipping: {over}"
    return "ends matter: a window waits until the CTI has passed the ends of its rows"


def _gains_in_order(node: ModuleWindows) -> Iterator[str]:
    """What goes on to the next operator, what comes in, and which rows windows to come need."""
    facts = node.module.properties
    if node.passes_cti:
        yield "time-bound: the CTI of the input is the CTI of the output"
    elif node.stamping.before_window:
        yield "unrestricted stamps: no CTI comes out before the end"
    if facts.ordered:
        yield "ordered: the rows of a window are not sorted again"
    if facts.any_order:
        yield "any order: the rows of a window are not sorted first"
    if facts.commutes_with_filter and node.window.grid is not None:
        columns = ", ".join(facts.commutes_with_filter)
        yield f"commutes with filters on {columns}: they run below the module"
    if node.window.remark is not None:
        yield node.window.remark
