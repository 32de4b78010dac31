"""A query that keeps no rows: its fragment runs where the rows are read, without exchange and
without a state store.

The only state is the progress of the sources: whether a row is late depends on the promise that
held when its micro-batch began, which follows from the headers of all earlier chunks.
`ProgressKeeper` follows them in the driver and saves the progress in the checkpoint; each task
(`row_task`) starts with the progress before its micro-batch.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from thalweg.errors import StateError
from thalweg.graph.graph_operator import OperatorFigures
from thalweg.io.row_bytes import read_rows, write_rows
from thalweg.io.whole_files import json_digest, write_whole
from thalweg.model.rows import Rows
from thalweg.operators.consistency import Consistency
from thalweg.shards.exchange.chunk import Chunk
from thalweg.shards.fragments.fragment import Exchange, Fragment, FragmentPlan
from thalweg.shards.worker.fragment_runner import FragmentRunner

__all__ = ["ProgressKeeper", "SavedProgress", "keeps_nothing", "slices_of"]

SavedProgress = Mapping[str, str]
"""The progress of all sources: slices by name, as text."""


def keeps_nothing(
    plan: FragmentPlan, consistency: Consistency, promising: Container[str] = ()
) -> bool:
    """Whether every operator gives its answer row by row, and no row has to wait for others.
    `promising` are sources some rows of which are promises."""
    if len(plan.fragments) != 1:
        return False
    inputs = plan.fragments[0].inputs
    if not all(_needs_no_order(entry, promising) for entry in inputs):
        return False
    runner = FragmentRunner(plan.fragments[0], consistency, parts={})
    return all(kernel.keeps_only_progress or not kernel.snapshot() for kernel in runner.kernels())


def _needs_no_order(entry: Exchange, promising: Container[str]) -> bool:
    """Whether the rows of an input may be admitted in any order: no promise comes between them, and
    none of them is adjusted later."""
    source = entry.source
    if source is None or entry.panes is not None or entry.leaf.ingress.observes:
        return False
    policy, facts = source.ingress, source.declared
    return facts.insert_only and not (
        policy.clocks
        or policy.partition
        or policy.quarantine
        or facts.group_ctis
        or facts.progressing
        or source.name in promising
    )


class ProgressKeeper:
    """Follows the promises of the sources from one micro-batch to the next.

    The file holds the progress before and after the last micro-batch, so that the same rows are
    late when it runs again.
    """

    def __init__(
        self,
        fragment: Fragment,
        consistency: Consistency,
        file: Path,
        *,
        idle: Mapping[str, float] | None = None,
    ) -> None:
        self._runner = FragmentRunner(fragment, consistency, parts={}, idle=idle)
        self._first = _texts(self._runner.slices())
        self._file = file
        self._progress: dict[int, SavedProgress] = {}
        """By micro-batch: the progress before it, of the last one and of the next."""

    def load(self, checkpoint: str, finished: int) -> None:
        """Restore the progress from the file. `finished` is the newest micro-batch that will not
        run again."""
        self._checkpoint = checkpoint
        if not self._file.exists():
            if finished >= 0:
                raise StateError(f"{self._named}: it is gone. Restore the whole checkpoint.")
            self._progress = {0: self._first}
            return
        saved = self._read()
        batch = saved.batch
        if saved.checkpoint != checkpoint or finished + 1 not in (batch, batch + 1):
            raise StateError(
                f"{self._named}: it is of micro-batch {batch}, the next one is {finished + 1}. It "
                "was mixed with another checkpoint; restore the whole checkpoint."
            )
        self._progress = {batch: saved.before, batch + 1: saved.after}

    @property
    def _named(self) -> str:
        return f"{self._file.parent.parent.name}: the file {self._file.name} of the checkpoint"

    def before(self, batch: int) -> SavedProgress:
        """The progress before a micro-batch."""
        if batch not in self._progress:
            raise StateError(
                f"{self._named}: micro-batch {batch} runs, but promises are known for "
                f"{sorted(self._progress)}. It was mixed with another checkpoint; restore the "
                "whole checkpoint."
            )
        return self._progress[batch]

    def follow(
        self, batch: int, chunks: Iterable[Chunk], operators: Mapping[str, OperatorFigures]
    ) -> tuple[int, str]:
        """Apply the headers of a micro-batch; returns the promise after it, and the report with the
        figures of the `operators`."""
        before = self.before(batch)
        self._runner.restore(slices_of(before))
        answer = self._runner.process([chunk.without_rows() for chunk in chunks], time.time())
        after = _texts(self._runner.slices())
        _SavedPromises(batch, self._checkpoint, before, after).write(self._file)
        self._progress = {batch: before, batch + 1: after}
        report = replace(self._runner.report(), operators=operators)
        return answer.batch.progress.cti, report.to_json()

    def _read(self) -> _SavedPromises:
        saved = _SavedPromises.read(self._file)
        if saved is None:
            raise StateError(f"{self._named}: it is damaged. Restore the whole checkpoint.")
        return saved


@dataclass(frozen=True)
class _SavedPromises:
    """The content of the file: the progress before and after a micro-batch."""

    batch: int
    checkpoint: str
    before: SavedProgress
    after: SavedProgress

    def write(self, file: Path) -> None:
        fields = asdict(self)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(fields | {"digest": json_digest(fields)}))

    @classmethod
    def read(cls, file: Path) -> _SavedPromises | None:
        """The content of the file; None if it is damaged."""
        try:
            fields = json.loads(file.read_text(encoding="utf-8"))
            return cls(**fields) if fields.pop("digest") == json_digest(fields) else None
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return None


def _texts(slices: Mapping[str, Rows]) -> dict[str, str]:
    return {name: base64.b64encode(write_rows(rows)).decode() for name, rows in slices.items()}


def slices_of(saved: SavedProgress) -> dict[str, Rows]:
    """Saved progress as slices."""
    return {name: read_rows(base64.b64decode(text)) for name, text in saved.items()}
