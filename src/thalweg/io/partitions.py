"""Columns that stand in the folders' names: `day=1/a.csv` gives every row of the file `day` 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.errors import InputError

__all__ = ["Partitions", "find_partitions"]

_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Partitions:
    """The columns that folders name, by Hive's convention."""

    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    def added(self, table: pa.Table, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a file with the columns that its path names."""
        if not self.names:
            return table
        from pyarrow import dataset  # most sources have no such folders

        try:
            parsed = dataset.HivePartitioning(self.schema).parse(f"{name.rpartition('/')[0]}/x")
            values = dataset.get_partition_keys(parsed)
        except pa.ArrowException as reason:
            raise InputError(f"the file {name}: {str(reason).rstrip('.')}.") from reason
        for entry in self.schema:
            if columns is not None and entry.name not in columns:
                continue
            if entry.name in table.schema.names:
                raise InputError(
                    f"the file {name} has the column {entry.name!r}, which its folder names too; "
                    "rename one."
                )
            column = pa.repeat(pa.scalar(values.get(entry.name), entry.type), len(table))
            table = table.append_column(entry, column)
        return table


def find_partitions(names: Iterable[str]) -> Partitions:
    """The columns that the folders of files name: whole numbers if all values are, else text.

    >>> find_partitions(["day=1/k=a/x.csv", "day=2/k=b/y.csv"]).schema.types
    [DataType(int64), DataType(string)]
    """
    values: dict[str, set[str]] = {}
    for folder in sorted({name.rpartition("/")[0] for name in names}):
        for part in folder.split("/"):
            key, equals, value = part.partition("=")
            if equals:
                values.setdefault(key, set()).add(value)
    return Partitions(pa.schema([(key, _type(texts)) for key, texts in values.items()]))


def _type(texts: set[str]) -> pa.DataType:
    try:
        pa.array(sorted(texts - {_NULL}), pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.string()
    return pa.int64()
