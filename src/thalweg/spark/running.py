"""A running query: its status, waiting for it, stopping it."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from thalweg.errors import InputWarning, PlanError, StateError
from thalweg.freshness.receiver_links import close_links, silent_receivers
from thalweg.graph.why import Why
from thalweg.io.file_log import passed_files
from thalweg.model.answers import Answers
from thalweg.model.clocks import time_value
from thalweg.model.time import INFINITY, MIN_TIME, TimeLike, time_us
from thalweg.plan.clock import clock_of
from thalweg.shards.checkpoint.ownership import lock_checkpoint, own_checkpoint, unlock_checkpoint
from thalweg.shards.output.kept_table import KeptTable
from thalweg.shards.reports.asks import asks_of, write_asks
from thalweg.shards.reports.combined import combined_why, notes_of_reports, write_reports
from thalweg.shards.reports.query_figures import BatchFigures, QueryFigures, QueryStatus
from thalweg.shards.sources.source_feed import log_of
from thalweg.spark.failures import has_ended, is_slow_start, plain_failure
from thalweg.spark.listeners import watch_query
from thalweg.spark.prepared import Prepared

__all__ = ["RunningQuery"]

_ATTEMPTS = 5
"""How often a query is started when a process of Spark's is too slow to come."""


class RunningQuery:
    """A query on Spark. It goes on until it is stopped, its sources end, or it fails."""

    def __init__(
        self,
        writer: DataStreamWriter,
        ready: Prepared,
        table: KeptTable | None,
        checkpoint: Path,
        *,
        temporary: bool,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._writer = writer
        self._ready = ready
        self._table = table
        self._checkpoint = checkpoint
        self._temporary = temporary
        self._notes = notes
        self._figures = QueryFigures()
        self._warned: set[str] = set()
        self._attempts = 0
        self.query = self._begin()
        own_checkpoint(checkpoint, self)

    def _begin(self) -> StreamingQuery:
        """Start, and try again if a process of Spark's was too slow to start."""
        while True:
            self._attempts += 1
            try:
                query = self._ready.begin(self._writer)
            except Exception as reason:
                if self._attempts >= _ATTEMPTS or not is_slow_start(reason):
                    raise plain_failure(reason, self._checkpoint) from reason
            else:
                figures_of = self._ready.figures_of
                watch_query(self._ready.spark, query, figures_of, self._note, self._release)
                return query

    def _begin_again(self) -> bool:
        """Whether a query that ended because a process was too slow runs again."""
        reason = None if self.query.isActive else self.query.exception()
        slow = reason is not None and is_slow_start(reason)
        if not slow or self._attempts >= _ATTEMPTS:
            return False
        try:
            lock_checkpoint(self._checkpoint, self)
        except StateError:
            return False
        own_checkpoint(self._checkpoint, self)
        self.query = self._begin()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query ends; raises what ended it."""
        while True:
            try:
                ended = has_ended(self.query, timeout)
            except Exception as reason:
                if self._begin_again():
                    continue
                self._release()
                raise plain_failure(reason, self._checkpoint) from reason
            break
        if ended:
            self._release()
            self._warn()
            return True
        return False

    def _warn(self) -> None:
        """Warn once about input that was skipped."""
        for note in self._passed()[1]:
            if note not in self._warned:
                self._warned.add(note)
                warnings.warn(note, InputWarning, stacklevel=3)

    def stop(self) -> None:
        """Stop after the micro-batch that is running."""
        self.query.stop()
        self._release()
        if self._temporary:
            shutil.rmtree(self._checkpoint, ignore_errors=True)

    @property
    def is_open(self) -> bool:
        return bool(self.query.isActive)

    def _release(self) -> None:
        """Let go of the checkpoint and of receivers."""
        close_links(self._ready.receiver_folders)
        unlock_checkpoint(self._checkpoint, self)

    def table(self) -> Answers:
        """What the answers say now: a sequence of rows (start, end, payload) that is also
        `.to_arrow()`, `.to_pandas()`, `.to_polars()` and `.batches()`; for a query that is kept in
        memory."""
        if self._table is None:
            raise PlanError(
                "this query is written elsewhere; start it with to='memory' to read its table here."
            )
        root = self._ready.plan.root
        return Answers.of_batches([self._table.batch()], root.schema, clock_of(root))

    def status(self) -> QueryStatus:
        """Figures of the query so far."""
        self._begin_again()
        progress = self.query.recentProgress
        for entry in progress:
            figures = self._ready.figures_of(entry)
            if figures is not None:
                self._note(entry.batchId, entry.batchDuration / 1000, figures)
        all_figures = self._figures
        passed, notes = self._passed()
        stuck = [warning for report in all_figures.reports for warning in report.stuck]
        return QueryStatus(
            batches=all_figures.batches,
            rows=all_figures.totals.read,
            exchanged=all_figures.totals.taken,
            changes=all_figures.totals.changes,
            adjusts=all_figures.totals.adjusts,
            late=all_figures.totals.late,
            state_rows=all_figures.newest.state_rows,
            state_bytes=all_figures.newest.state_bytes,
            cti=self._shown(all_figures.newest.cti),
            seconds=progress[-1].batchDuration / 1000 if progress else 0.0,
            active=self.query.isActive,
            operators=dict(all_figures.operators),
            dead=all_figures.totals.dead,
            skipped=all_figures.totals.unwanted,
            passed=passed,
            warnings=tuple(
                dict.fromkeys(
                    [
                        *self._notes,
                        *notes,
                        *notes_of_reports(all_figures.reports),
                        *stuck,
                        *silent_receivers(self._ready.receiver_folders),
                    ]
                )
            ),
        )

    def _shown(self, cti: int) -> int | datetime | None:
        if cti in (MIN_TIME, INFINITY):
            return INFINITY if cti == INFINITY else None
        return time_value(cti, clock_of(self._ready.plan.root))

    def _passed(self) -> tuple[int, list[str]]:
        """How many files are passed over, and which."""
        count, notes = 0, []
        for source in self._ready.sources:
            number, files = passed_files(log_of(self._checkpoint, source))
            count += number
            notes += [
                f"source {source!r}: the file {name} is not read: {why}."
                for name, why in files.items()
            ]
            if number > len(files):
                notes.append(f"source {source!r}: {number - len(files)} more files are not read.")
        return count, notes

    def why(self, start: TimeLike | None = None) -> Why:
        """Why the answer that starts at `start` is not final (without one: the first that is not),
        as of the last micro-batch.

        Says which operator waits for which source's promise, since when, and what would release it.
        """
        self.status()
        why = combined_why(self._figures.reports, None if start is None else time_us(start))
        return replace(why, clock=clock_of(self._ready.plan.root))

    def _note(self, batch: int, _seconds: float, figures: BatchFigures) -> None:
        """The figures of one more micro-batch; its reports are left in the checkpoint."""
        if not self._figures.note(batch, figures):
            return
        if self._ready.lags:
            write_asks(self._checkpoint, batch, asks_of(self._figures.reports, self._ready.lags))
        if not self._temporary:
            write_reports(self._checkpoint, batch, self._figures.reports, run=str(self.query.runId))

    def figures(self) -> dict[int, BatchFigures]:
        """The figures of the micro-batches that Spark remembers, by number."""
        by_batch = {
            entry.batchId: self._ready.figures_of(entry) for entry in self.query.recentProgress
        }
        return {batch: figures for batch, figures in by_batch.items() if figures is not None}

    def explain(self) -> str:
        """The fragments, what is exchanged by which keys, and what runs before each exchange."""
        return self._ready.explain()
