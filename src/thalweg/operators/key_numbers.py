"""Keys of a batch, numbered, so that rows held elsewhere have the same numbers for the same
keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Bools, Codes, Rows, encode, encode_together
from thalweg.model.sorting import representatives

__all__ = ["KeyNumbers"]


@dataclass(frozen=True, slots=True)
class KeyNumbers:
    """Distinct keys; the number of a key is its position.

    >>> rows = pa.RecordBatch.from_pydict({"k": ["b", "a", "b"], "v": [1, 2, 3]})
    >>> keys = KeyNumbers.of(rows, ("k",))
    >>> len(keys), keys.numbers(pa.RecordBatch.from_pydict({"k": ["c"]})).tolist()
    (2, [-1])
    """

    rows: Rows
    size: int

    @classmethod
    def of(cls, rows: Rows, names: tuple[str, ...]) -> KeyNumbers:
        """The keys of some rows; without `names` all rows have the one key 0."""
        code, size = encode([rows.column(name) for name in names], rows.num_rows)
        representative = representatives(code, size)
        return cls(rows.select(list(names)).take(pa.array(representative)), size)

    def __len__(self) -> int:
        return self.size

    def numbers(self, rows: Rows, names: tuple[str, ...] | None = None) -> Codes:
        """The number of each row's key, in the columns `names`; -1 for keys that are not here."""
        if not self.rows.num_columns:
            return np.zeros(rows.num_rows, np.int64)
        own, asked, size = encode_together(
            self.rows.columns,
            [rows.column(name) for name in names or self.rows.schema.names],
            (self.size, rows.num_rows),
        )
        number = np.full(size, -1)
        number[own] = np.arange(self.size)
        return number[asked]

    def filter(self, mask: Bools) -> KeyNumbers:
        """Some of the keys, numbered anew."""
        return KeyNumbers(self.rows.filter(pa.array(mask)), int(mask.sum()))
