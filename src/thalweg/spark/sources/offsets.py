"""Offsets of our sources: how far each was read, as fields with types.

Spark hands an offset to a reader, and takes it back, as a dictionary, and writes it as JSON into
the offset log of the checkpoint. Only here is it that dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, Self, TypeVar

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

__all__ = ["Offset", "Part", "TypedOffsets"]


@dataclass
class Part(InputPartition):
    """What one task reads, in the fields of a subclass."""

    def __post_init__(self) -> None:
        super().__init__(None)


@dataclass(frozen=True)
class Offset:
    """How far a source was read. A field that is None is not in the log."""

    def to_log(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def of_log(cls, fields: Mapping[str, Any]) -> Self:
        return cls(**fields)


OffsetT = TypeVar("OffsetT", bound=Offset)


class TypedOffsets(Generic[OffsetT]):
    """The part of a reader that Spark asks what there is to read: its methods over `Offset`."""

    offset_type: type[OffsetT]

    def initial(self) -> OffsetT:
        """Before anything was read."""
        raise NotImplementedError

    def latest(self, start: OffsetT, limit: ReadLimit) -> OffsetT:
        """How far can be read now, from an offset on."""
        raise NotImplementedError

    def parts(self, start: OffsetT, end: OffsetT) -> list[InputPartition]:
        """What tasks read to come from one offset to another."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------
    # as Spark calls them

    def initialOffset(self) -> dict[str, Any]:
        return self.initial().to_log()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self.latest(self.offset_type.of_log(start), limit).to_log()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return self.parts(self.offset_type.of_log(start), self.offset_type.of_log(end))
