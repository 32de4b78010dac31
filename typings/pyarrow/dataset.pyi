"""Files in folders whose names say what is in them."""

from collections.abc import Mapping
from typing import Any

from . import Schema, Table
from .compute import Expression

class HivePartitioning:
    def __init__(
        self,
        schema: Schema,
        dictionaries: Mapping[str, Any] | None = None,
        null_fallback: str = ...,
    ) -> None: ...
    def parse(self, path: str) -> Expression: ...
    @staticmethod
    def discover(**options: object) -> Any: ...

class Dataset:
    @property
    def schema(self) -> Schema: ...
    def to_table(self, **options: object) -> Table: ...
    def count_rows(self, **options: object) -> int: ...

def dataset(source: object, schema: Schema | None = None, **options: object) -> Dataset: ...
def get_partition_keys(partition_expression: Expression) -> dict[str, Any]: ...
