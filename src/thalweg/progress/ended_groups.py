"""The groups of a source that have ended for ever, so that a row of one of them is late.

The end of a group is passed downstream once, and every operator forgets the group. Its source
cannot: a row that comes after all breaks a promise, and nothing else would notice. So the source
keeps a digest of each such group, 16 bytes, in sorted runs that double in size: one more group
costs a run of one now and then a merge of two, a snapshot writes the runs that are new, and a batch
looks all its groups up at once. That is all that is left of a group, whatever it held; it ends with
the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.digests import Digests, digest_rows
from thalweg.model.rows import Bools, Rows

__all__ = ["NO_ENDED_GROUPS", "EndedGroups"]

_NAME = "ended"


@dataclass(frozen=True, eq=False, slots=True)
class EndedGroups:
    """
    >>> ended = NO_ENDED_GROUPS.add(("k",), [pa.array(["a", "b"])], 2)
    >>> ended.find([pa.array(["b", "c", None])], 3).tolist(), len(ended)
    ([True, False, False], 2)
    """

    columns: tuple[str, ...] = ()
    """The columns that name a group."""
    runs: tuple[Rows, ...] = ()
    """Digests in two columns of words, each run sorted."""

    def __len__(self) -> int:
        return sum(run.num_rows for run in self.runs)

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.runs)

    def add(self, columns: tuple[str, ...], values: Sequence[pa.Array], length: int) -> EndedGroups:
        """These groups too; each is added once."""
        runs = [*self.runs, _run(digest_rows(values, length))]
        while len(runs) > 1 and runs[-2].num_rows < 2 * runs[-1].num_rows:
            last, before = (_digests(runs.pop()) for _ in range(2))
            both = (
                np.concatenate([before.high, last.high]),
                np.concatenate([before.low, last.low]),
            )
            runs.append(_run(Digests(*both)))
        return EndedGroups(columns, tuple(runs))

    def find(self, values: Sequence[pa.Array], length: int) -> Bools:
        """Which groups have ended; `values` are the columns of the groups' keys."""
        found = np.zeros(length, np.bool_)
        group_digests = digest_rows(values, length)
        for run in self.runs:
            digests = _digests(run)
            at = np.minimum(np.searchsorted(digests.low, group_digests.low), len(digests) - 1)
            found |= (digests.low[at] == group_digests.low) & (
                digests.high[at] == group_digests.high
            )
        return found

    def snapshot(self) -> dict[str, Rows]:
        """One slice a run. A run is known by how many groups are in those before it."""
        slices, before = {}, 0
        for run in self.runs:
            slices[f"{_NAME}/{before}"] = run
            before += run.num_rows
        return slices

    @classmethod
    def restore(cls, columns: tuple[str, ...], slices: Mapping[str, Rows]) -> EndedGroups:
        """The inverse of `snapshot`."""
        named = {name: run for name, run in slices.items() if name.startswith(f"{_NAME}/")}
        places = sorted(int(name.partition("/")[2]) for name in named)
        return cls(columns if named else (), tuple(named[f"{_NAME}/{place}"] for place in places))


NO_ENDED_GROUPS = EndedGroups()


def _run(digests: Digests) -> Rows:
    order = np.lexsort((digests.high, digests.low))
    words = [digests.high[order], digests.low[order]]
    return pa.RecordBatch.from_arrays([pa.array(word) for word in words], names=["high", "low"])


def _digests(run: Rows) -> Digests:
    high, low = (_words(run.column(at)) for at in (0, 1))
    return Digests(high, low)


def _words(column: pa.Array) -> npt.NDArray[np.uint64]:
    words: npt.NDArray[np.uint64] = column.to_numpy()
    return words
