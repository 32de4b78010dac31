"""The lines of a progress record: one for each micro-batch, in a chain of digests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from thalweg.errors import StateError
from thalweg.io.whole_files import json_digest
from thalweg.shards.checkpoint.query_identity import QueryIdentity

__all__ = [
    "NO_BATCH",
    "RecordLine",
    "numbered_files",
    "read_lines",
    "record_file",
    "recorded_query",
]

NO_BATCH = -1
"""The batch of the line that is written before the first batch."""


def record_file(checkpoint: Path) -> Path:
    return checkpoint / "thalweg" / "record.jsonl"


def numbered_files(folder: Path) -> set[int]:
    """The numbers of the micro-batches that have a file in a folder."""
    return {int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()}


@dataclass(frozen=True)
class RecordLine:
    batch: int
    offsets: str
    """A digest of the batch's file of offsets."""
    constant: Mapping[str, str]
    """By file that never changes: its digest."""
    query: QueryIdentity
    checkpoint: str
    """The identity of the checkpoint; empty in records of old versions."""
    before: str
    """The digest of the line before; empty: there is none."""
    written: Mapping[str, Any] | None = None
    """The fields that the line was read from; None: it is a new one."""

    @cached_property
    def _fields(self) -> dict[str, Any]:
        if self.written is not None:
            return dict(self.written)
        return {
            "batch": self.batch,
            "offsets": self.offsets,
            "constant": dict(self.constant),
            "query": self.query.to_json(),
            "checkpoint": self.checkpoint,
            "before": self.before,
        }

    @cached_property
    def digest(self) -> str:
        return json_digest(self._fields)

    def to_text(self) -> str:
        return json.dumps({**self._fields, "digest": self.digest}) + "\n"

    @classmethod
    def of_text(cls, text: str) -> RecordLine | None:
        """The line of a text; None if the text is not whole."""
        try:
            fields = json.loads(text)
            if fields.pop("digest") != json_digest(fields):
                return None
            return cls(
                fields["batch"],
                fields["offsets"],
                fields["constant"],
                QueryIdentity.of_json(fields["query"]),
                fields.get("checkpoint", ""),
                fields["before"],
                fields,
            )
        except (ValueError, KeyError, AttributeError, TypeError):
            return None


def read_lines(checkpoint: Path) -> Iterator[RecordLine]:
    """The lines of a record. A text after the last line end was cut off by a crash before its batch
    had an effect; it is a line only if nothing but the line end is missing."""
    file = record_file(checkpoint)
    *texts, rest = file.read_text(encoding="utf-8", errors="replace").split("\n")
    if rest and RecordLine.of_text(rest) is not None:
        texts.append(rest)
    before: str | None = None
    for number, text in enumerate(texts):
        line = RecordLine.of_text(text)
        if line is None or before not in (None, line.before):
            raise StateError(
                f"{checkpoint.name}: line {number} of thalweg/record.jsonl is damaged. Restore the "
                "whole checkpoint."
            )
        before = line.digest
        yield line


def recorded_query(checkpoint: Path) -> QueryIdentity | None:
    """The query in the record of a checkpoint; None where there is no readable record
    (`ProgressRecord.check` reports what is wrong with it)."""
    try:
        texts = record_file(checkpoint).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    lines = map(RecordLine.of_text, reversed(texts))
    return next((line.query for line in lines if line is not None), None)
