"""What a module declares beyond its methods. The optimizer relies on it; the law checker tests it.

Two more facts need no declaration: a module with `merge` is *mergeable*, a module with `remove` is
*differential*.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["Properties"]


@dataclass(frozen=True, slots=True)
class Properties:
    """
    >>> str(Properties(time_bound=True))
    'deterministic, time_bound'
    """

    deterministic: bool = True
    """The same rows give the same answer. Otherwise every answer is kept until its window is
    closed."""
    time_bound: bool = False
    """A change at time t changes no output before t, so that the input's CTI passes through. Needs
    `stamp="time-bound"`."""
    ignores_ends: bool = False
    """The ends of events do not matter. They are shown cut at the window's end, and a window is
    closed when the CTI reaches it."""
    commutes_with_filter: tuple[str, ...] = ()
    """Inputs that are also outputs, such that leaving rows out by them before or after comes to the
    same."""
    ordered: bool = False
    """The output of a window comes in order of start, and is not sorted again."""
    any_order: bool = False
    """The order of the rows does not matter, so that they are not sorted first."""

    def __str__(self) -> str:
        shown = []
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is True:
                shown.append(entry.name)
            elif value:
                shown.append(f"{entry.name}({', '.join(value)})")
        return ", ".join(shown) or "none"
