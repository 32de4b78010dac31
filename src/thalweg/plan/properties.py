"""Facts about a stream that hold for every physical form of it, inferred node by node.

They pick kernels, tell LMerge which algorithm is enough, and let rules move operators. A fact that
cannot be shown is false: the inference is conservative.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from thalweg.model.clocks import lasting

__all__ = ["StreamProperties"]


@dataclass(frozen=True, slots=True)
class StreamProperties:
    ordered: bool = False
    """Elements come in non-decreasing sync time."""
    insert_only: bool = False
    """There are no adjusts."""
    unique_start: bool = False
    """No two rows of the table start at the same time (in a group: of the same group)."""
    payload_start_key: bool = False
    """`(payload, start)` is a key of the table at every moment."""
    constant_duration: int | None = None
    """Every row lasts this long."""
    group_ctis: bool = False
    """Promises may come for one group alone."""
    firm_ends: bool = False
    """A row is only ever inserted or removed whole; its end never moves."""
    group_keys: tuple[str, ...] = ()
    """The columns that identify the group of a row, after a grouped operator."""
    progressing: tuple[str, ...] = ()
    """Of a source: the columns about which promises may come, as about the start."""

    def but(self, **changes: object) -> StreamProperties:
        return replace(self, **changes)  # type: ignore[arg-type]

    def with_new_starts(self) -> StreamProperties:
        """Of the same rows, when each of them gets another start."""
        return self.but(
            ordered=False, unique_start=False, payload_start_key=False, group_ctis=False
        )

    def with_new_lifetimes(self) -> StreamProperties:
        """Of the same rows, when other rows decide about their lifetimes."""
        return self.but(
            ordered=False,
            insert_only=False,
            constant_duration=None,
            firm_ends=False,
            group_ctis=False,
        )

    def __str__(self) -> str:
        shown = []
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is True:
                shown.append(entry.name)
            elif value not in (False, None, ()):
                text = lasting(value) if entry.name == "constant_duration" else value
                shown.append(f"{entry.name}={text}")
        return ", ".join(shown) or "none"
