"""A host on Spark: queries are added, removed and replaced while one Spark query runs.

    sources -> stage 0 -> stage 1 -> ... -> one job for all answers

The Spark query is the same whatever the queries are: the sources are given once, the number of
stages is fixed, and what runs in a stage is state (`shards.host.stage_runner`). Every change of the
queries is a version in the checkpoint (`shards.host.query_registry`), and the version that a
micro-batch is read for is in its offsets (`sources.versioned`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Condition
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery

from thalweg.errors import PlanError, StateError
from thalweg.expr.user_calls import UserFunction
from thalweg.model.answers import Answers
from thalweg.model.time import Duration, duration_us
from thalweg.plan.clock import clock_of
from thalweg.plan.nodes import Node
from thalweg.plan.written import write_plan
from thalweg.shards.checkpoint.ownership import lock_checkpoint, own_checkpoint, unlock_checkpoint
from thalweg.shards.checkpoint.query_identity import QueryIdentity
from thalweg.shards.checkpoint.record import ProgressRecord
from thalweg.shards.exchange.buckets import bucket_ids
from thalweg.shards.exchange.chunk import EXCHANGE_COLUMNS
from thalweg.shards.host.figures import HostedStatus, HostFigures
from thalweg.shards.host.host_ingest import HostIngest
from thalweg.shards.host.host_queries import HostQueries
from thalweg.shards.host.host_sources import refuse_stamps, sources_by_name, without_feed
from thalweg.shards.host.host_tables import HostTables
from thalweg.shards.host.query_registry import HostedQuery, QueryRegistry
from thalweg.shards.host.roster import HostSpec, stages_of
from thalweg.shards.output.destinations import require_hosted
from thalweg.shards.sources.source_feed import log_of
from thalweg.spark.failures import has_ended, is_slow_start, plain_failure, with_short_search
from thalweg.spark.processes.shipping import ship
from thalweg.spark.session import check_session, current_session
from thalweg.spark.settings import applied, needed_settings
from thalweg.spark.sinks.host_sinks import FileSink, deliver
from thalweg.spark.sources.ticker import with_ticker
from thalweg.spark.stages.host_stage import HostProcessor
from thalweg.spark.trigger import trigger_arguments
from thalweg.stream import Stream
from thalweg.udm.module import Module

__all__ = ["SparkHost", "host"]

_ATTEMPTS = 3


def host(
    *sources: Stream,
    checkpoint: str,
    stages: int = 1,
    buckets: int | None = None,
    modules: Sequence[Module | UserFunction] = (),
    spark: SparkSession | None = None,
) -> SparkHost:
    """A host over these sources, with the queries that its checkpoint has. `start()` lets it run.

    `stages` is how often a query may exchange its rows; one more than is needed now leaves room.
    `modules` are users' modules and functions that workers cannot import by name: they are given
    again at each start.
    """
    return SparkHost(
        sources,
        Path(checkpoint).absolute(),
        stages=stages,
        buckets=buckets,
        modules=modules,
        spark=spark or current_session(),
    )


class SparkHost:
    """Queries that come and go on one Spark query."""

    def __init__(
        self,
        sources: Sequence[Stream],
        checkpoint: Path,
        *,
        stages: int,
        buckets: int | None,
        modules: Sequence[Module | UserFunction],
        spark: SparkSession,
    ) -> None:
        self._named = sources_by_name(sources)
        if stages < 1:
            raise PlanError(f"host: stages must be 1 or more; got {stages}.")
        check_session(spark)
        self._spark = spark
        self._checkpoint = checkpoint
        count = buckets or spark.sparkContext.defaultParallelism
        plain = {name: without_feed(node) for name, node in self._named.items()}
        self._spec = HostSpec(uuid.uuid4().hex, bucket_ids(count), stages, plain, tuple(modules))
        self._settings = {**needed_settings(spark), "spark.sql.shuffle.partitions": str(count)}
        self._registry = QueryRegistry(checkpoint / "thalweg" / "queries")
        identity = {
            "stages": stages,
            "buckets": count,
            "sources": {name: write_plan(node) for name, node in plain.items()},
        }
        self._record = ProgressRecord(checkpoint, QueryIdentity({"host": identity}))
        lock_checkpoint(checkpoint, self)
        try:
            self._record.check()
            self._registry.check()
            self._queries = HostQueries(self._registry, self._spec)
            self._tables = HostTables(checkpoint / "thalweg" / "tables")
            for entry in self._queries.live.values():
                schema = self._queries.schema(entry.name)
                last, finished = self._record.last, self._record.finished
                self._tables.open(entry, schema, last=last, finished=finished)
        except BaseException:
            unlock_checkpoint(checkpoint)
            raise
        self.is_open = True
        own_checkpoint(checkpoint, self)
        self._figures = HostFigures()
        self._dead = 0
        self._news = Condition()
        self.batches = 0
        """Micro-batches that have left since the start."""
        self.query: StreamingQuery | None = None

    # --------------------------------------------------------------------------------------------
    # queries

    @property
    def queries(self) -> list[str]:
        """The names of the queries that run."""
        return list(self._queries.live)

    def add(
        self,
        name: str,
        query: Stream | Node,
        *,
        to: str = "memory",
        path: str | None = None,
        output: str = "changelog",
        consistency: str = "speculative",
        hold: Duration | None = None,
        partial: bool = False,
    ) -> int:
        """Let a query run, from the next chunk of each of its sources on; the version that has it.

        It is written down when this returns, and runs after a restart too. Windows that began
        before the newest row that was read by then are left out, unless `partial`. Answers go to
        `"memory"` (see `table`), to `"parquet"` files under `path`, or to `"noop"`.
        """
        return self.add_all(
            {name: query},
            to=to,
            path=path,
            output=output,
            consistency=consistency,
            hold=hold,
            partial=partial,
        )

    def add_all(
        self,
        queries: Mapping[str, Stream | Node],
        *,
        to: str = "memory",
        path: str | None = None,
        output: str = "changelog",
        consistency: str = "speculative",
        hold: Duration | None = None,
        partial: bool = False,
    ) -> int:
        """Let several queries run from one point on. Files of each are in a folder of its name."""
        require_hosted(to, path, output, consistency, queries=len(queries))
        for name, query in queries.items():
            refuse_stamps(name, query)
        folder = None if path is None else str(Path(path).absolute())
        if folder is not None and Path(folder).exists() and any(Path(folder).iterdir()):
            raise StateError(f"{path} already holds files: answers would be mixed.")
        change = self._queries.add(
            queries,
            to=to,
            path=folder,
            output=output,
            consistency=consistency,
            hold=0 if hold is None else duration_us(hold),
            partial=partial,
        )
        return change.version

    def remove(self, *names: str) -> int:
        """End queries: their state goes with the next micro-batch, their tables now."""
        removed = [self._queries.live[name].id for name in names if name in self._queries.live]
        change = self._queries.remove(*names)
        for id_ in removed:
            self._tables.drop(id_)
        return change.version

    def replace(self, name: str, query: Stream | Node, *, partial: bool = False) -> int:
        """Let another query run under a name. Where answers are final, the columns are the same
        and every operator with state is as it was, it goes on with that state; otherwise it begins
        anew."""
        refuse_stamps(name, query)
        return self._queries.replace(name, query, partial=partial).version

    def explain(self) -> str:
        """What runs before the exchange and for whom, and the fragments of each query."""
        lines = ["exchanged for"]
        lines += [f"  {name}: {', '.join(users)}" for name, users in self._queries.shared().items()]
        for name in self.queries:
            plan = self._queries.plan(name)
            lines.append(
                f"query {name}, {max(stages_of(plan).values()) + 1} of {self._spec.stages} stages"
            )
            lines += [f"  {line}" for line in plan.describe().splitlines()]
        return "\n".join(lines)

    # --------------------------------------------------------------------------------------------
    # answers

    def table(self, name: str) -> Answers:
        """What the answers of a query that is kept in memory say now."""
        root = self._queries.root(name)
        entry = self._queries.live[name]
        if entry.to != "memory":
            raise PlanError(f"the answers of {name!r} go to {entry.to}; add it with to='memory'.")
        kept = self._tables.get(entry)
        batches = [] if kept is None else [kept.batch()]
        return Answers.of_batches(batches, root.schema, clock_of(root))

    def status(self, name: str) -> HostedStatus:
        """Figures of a query, since the host was started."""
        return self._figures.status(self._queries.live[name].id)

    # --------------------------------------------------------------------------------------------
    # running

    def start(self, trigger: str | Mapping[str, Any] = "at once") -> SparkHost:
        """Let the queries run: one micro-batch after the other, or with `"available now"` until
        the files that are there are read."""
        if self.query is not None and self.query.isActive:
            raise PlanError("the host runs already.")
        when = trigger_arguments(trigger)
        lock_checkpoint(self._checkpoint, self)
        own_checkpoint(self._checkpoint, self)
        self.is_open = True
        self._record.begin()
        for attempt in range(_ATTEMPTS):
            try:
                with applied(self._spark, self._settings):
                    self.query = (
                        self._output()
                        .writeStream.foreachBatch(with_short_search(self._each))
                        .option("checkpointLocation", str(self._checkpoint))
                        .trigger(**when)
                        .start()
                    )
            except Exception as reason:
                if attempt + 1 == _ATTEMPTS or not is_slow_start(reason):
                    raise plain_failure(reason, self._checkpoint) from reason
            else:
                break
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the host ends; raises what ended it."""
        if self.query is None:
            return True
        try:
            return has_ended(self.query, timeout)
        except Exception as reason:
            self._release()
            raise plain_failure(reason, self._checkpoint) from reason

    def wait_for_batches(self, batches: int, timeout: float = 60.0) -> bool:
        """Wait until this many more micro-batches have left, or the host has ended."""
        with self._news:
            goal = self.batches + batches
            return self._news.wait_for(
                lambda: self.batches >= goal or self.query is None or not self.query.isActive,
                timeout,
            )

    def stop(self) -> None:
        """Stop after the micro-batch that is running. The queries stay in the checkpoint."""
        if self.query is not None:
            self.query.stop()
        self._release()

    def _output(self) -> DataFrame:
        spec, spark = self._spec, self._spark
        rows: DataFrame | None = None
        for name, node in self._named.items():
            assert node.feed is not None
            ingest = HostIngest(
                spec.sources[name], spec.roster(), str(self._checkpoint / "thalweg" / "queries")
            )
            log = str(log_of(self._checkpoint, name))
            read = node.feed.exchange(spark, ingest, node.columns, name, log)
            read = with_ticker(spark, read, ingest, node, None)
            rows = read if rows is None else rows.union(read)
        assert rows is not None
        for stage in range(spec.stages):
            processor = ship(HostProcessor(spec, stage))
            rows = rows.groupBy(col("bucket")).transformWithState(
                processor, EXCHANGE_COLUMNS, "Append", "None"
            )
        return rows

    def _each(self, output: DataFrame, batch: int) -> None:
        """What is done with each micro-batch."""
        self._record.note(batch)
        live = {entry.id: entry for entry in self._queries.live.values()}
        sinks = {id_: self._sink(entry) for id_, entry in live.items() if entry.to == "parquet"}
        found = deliver(output, batch, sinks)
        for id_, entry in live.items():
            if entry.to == "memory":
                schema = self._queries.schema(entry.name)
                self._tables.take(entry, schema, batch, found.answers.get(id_, []))
        self._dead += found.dead
        self._figures.add(found.reports)
        with self._news:
            self.batches += 1
            self._news.notify_all()

    def _sink(self, entry: HostedQuery) -> FileSink:
        root = self._queries.root(entry.name)
        assert entry.path is not None
        return FileSink(
            entry.path,
            entry.output,
            root.schema,
            root.properties.group_keys,
            clock_of(root) is not None,
        )

    def _release(self) -> None:
        self.is_open = False
        unlock_checkpoint(self._checkpoint, self)
