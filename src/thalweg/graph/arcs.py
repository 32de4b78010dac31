"""Arcs: the buffers between operators. One operator puts batches in at the tail, another takes them
from the front."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from thalweg.model.batch import Batch

if TYPE_CHECKING:
    from thalweg.graph.stations import Station

__all__ = ["Arc"]


@dataclass(eq=False, slots=True)
class Arc:
    """A buffer that leads to port `port` of a station; `head` is None for an arc that leads out of
    the graph."""

    head: Station | None
    port: int
    buffer: deque[Batch] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self.buffer)
