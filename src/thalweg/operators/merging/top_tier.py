"""The top tier of the index of a merge: every live row once, whatever number of inputs has it.

Figure 1 of the document has a tree by start and payload. Here a row has a slot, found by the digest
of its payload and start; rows that no CTI of the output has reached lie in sorted runs by start, so
that the rows a CTI freezes are taken off the front. What the inputs and the output say about a row
is kept beside it, in columns by slot, by the level (two tiers in `keyed`, three in `counted`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.digests import Digests
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import Times
from thalweg.operators.merging.digest_table import DigestTable, grown
from thalweg.operators.merging.payloads import Payloads

__all__ = ["TopTier"]


class TopTier:
    """Live rows by payload and start, and which of them the output's CTI has reached."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.table = DigestTable()
        self.payloads = Payloads(schema)
        self.start: Times = np.zeros(self.table.capacity, np.int64)
        self.alive: Bools = np.zeros(self.table.capacity, np.bool_)
        self.half: Codes = np.empty(0, np.int64)
        """Slots of half frozen rows."""
        self._unfrozen: list[tuple[Times, Codes]] = []

    def __len__(self) -> int:
        return len(self.table)

    @property
    def capacity(self) -> int:
        return self.table.capacity

    @property
    def nbytes(self) -> int:
        runs = sum(start.nbytes + slots.nbytes for start, slots in self._unfrozen)
        columns = self.start.nbytes + self.alive.nbytes + self.half.nbytes
        return self.table.nbytes + self.payloads.nbytes + columns + runs

    def add(self, digests: Digests, rows: Rows, start: Times) -> Codes:
        """Slots for rows that are not there yet."""
        slots = self.table.add(digests)
        self.start = grown(self.start, self.capacity)
        self.alive = grown(self.alive, self.capacity)
        self.start[slots] = start
        self.alive[slots] = True
        self.payloads.add(slots, rows)
        order = np.argsort(start, kind="stable")
        self._unfrozen.append((start[order], slots[order]))
        self._merge_runs()
        return slots

    def _merge_runs(self) -> None:
        runs = self._unfrozen
        while len(runs) > 1 and len(runs[-2][0]) < 2 * len(runs[-1][0]):
            later, earlier = runs.pop(), runs.pop()
            start = np.concatenate([earlier[0], later[0]])
            slots = np.concatenate([earlier[1], later[1]])
            order = np.argsort(start, kind="stable")
            runs.append((start[order], slots[order]))

    def reach(self, time: int) -> Codes:
        """Slots of the rows that start before a time: first those that were half frozen, then those
        that the time freezes. They become `half`; the caller removes what is settled."""
        taken = [self.half]
        kept = []
        for start, slots in self._unfrozen:
            cut = int(np.searchsorted(start, time, side="left"))
            if cut:
                taken.append(slots[:cut])
            if cut < len(slots):  # a copy once half of a run is gone, so that memory is given back
                rest = (start[cut:], slots[cut:])
                kept.append((rest[0].copy(), rest[1].copy()) if cut > len(rest[0]) else rest)
        self._unfrozen = kept
        self.half = np.concatenate(taken) if len(taken) > 1 else self.half
        return self.half

    def unfrozen(self) -> Codes:
        """Slots of all rows that the output's CTI has not reached."""
        if not self._unfrozen:
            return np.empty(0, np.int64)
        return np.concatenate([slots for _, slots in self._unfrozen])

    def remove_half(self, gone: Bools) -> None:
        """Drop half frozen rows that are settled; `gone` is by their order in `half`."""
        if not gone.any():
            return
        slots = self.half[gone]
        self.half = self.half[~gone]
        self.alive[slots] = False
        self.payloads.remove(slots)
        self.table.remove(slots)
