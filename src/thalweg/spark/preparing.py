"""From a plan and its feeds to a Structured Streaming query: fragments joined by packed
exchanges."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from thalweg.errors import PlanError, did_you_mean
from thalweg.model.clocks import shown_by
from thalweg.model.time import Duration, duration_us
from thalweg.operators.consistency import Consistency
from thalweg.plan.clock import clock_of
from thalweg.plan.explain import operator_ids
from thalweg.plan.nodes import Node, Source
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.shards.checkpoint.module_digests import module_digests
from thalweg.shards.checkpoint.query_identity import QueryIdentity
from thalweg.shards.checkpoint.record import ProgressRecord
from thalweg.shards.checkpoint.record_lines import recorded_query
from thalweg.shards.exchange.buckets import bucket_ids
from thalweg.shards.exchange.chunk import EXCHANGE_COLUMNS
from thalweg.shards.exchange.ingest import Ingest
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import (
    Fragment,
    FragmentPlan,
    parts_of,
    sources_of,
    targets_of,
)
from thalweg.shards.output.rows import OUTPUT_COLUMNS
from thalweg.shards.reports.asks import lags
from thalweg.shards.sources.source_feed import log_of, name_sources, without_feeds
from thalweg.shards.stateless.progress_keeper import ProgressKeeper, keeps_nothing
from thalweg.shards.worker.fragment_bucket import FragmentSpec
from thalweg.shards.worker.fragment_runner import FragmentRunner
from thalweg.spark.jvm.pane_sums import summing_of, summing_text
from thalweg.spark.observed import with_observed_figures
from thalweg.spark.prepared import Prepared
from thalweg.spark.processes.shipping import ship
from thalweg.spark.session import check_session, current_session, parallelism
from thalweg.spark.settings import CHECKPOINT_FILES, UNWEIGHED, needed_settings
from thalweg.spark.sources.feed import Feed, feeds_of
from thalweg.spark.sources.frame_feed import Frame
from thalweg.spark.sources.receiver_feed import Received, bind_queues
from thalweg.spark.sources.ticker import with_ticker
from thalweg.spark.stages.processor import FragmentProcessor
from thalweg.spark.stages.stateless import StatelessStage
from thalweg.stream import Stream

__all__ = ["prepare"]


def prepare(
    query: Stream | Node,
    feeds: Mapping[str, Feed] | None = None,
    *,
    checkpoint: str,
    consistency: str = "speculative",
    hold: Duration | None = None,
    buckets: int | None = None,
    idle: Mapping[str, float] | None = None,
    spark: SparkSession | None = None,
    by_batch: bool = False,
) -> Prepared:
    """Cut the query into fragments and join them by exchanges; the feeds of its sources are taken
    where none is given. `by_batch`: the answers are taken micro-batch by micro-batch, so that a
    query that keeps no rows needs no store."""
    root = query.node if isinstance(query, Stream) else query
    feeds_of(root)  # frames of this process are refused before they are named
    root = name_sources(root)
    feeds = bind_queues(root, {**feeds_of(root), **(feeds or {})})
    spark = spark or current_session()
    check_session(spark)
    plan = fragments_of(without_feeds(root))
    _require_feeds(sources_of(plan), feeds)
    count = buckets or parallelism(spark)
    preparation = _Preparation(
        spark,
        root,
        plan,
        feeds,
        Consistency(consistency, 0 if hold is None else duration_us(hold)),
        Path(checkpoint),
        count,
        idle or {},
    )
    return (
        preparation.without_state()
        if by_batch and preparation.needs_no_state()
        else preparation.with_state()
    )


def _require_feeds(sources: Mapping[str, Source], feeds: Mapping[str, Feed]) -> None:
    unknown = set(sources) - set(feeds)
    if unknown:
        raise PlanError(
            f"no feed for the source {min(unknown)!r}{did_you_mean(min(unknown), feeds)} Feeds: "
            f"{', '.join(feeds) or 'none'}."
        )


@dataclass(frozen=True)
class _Preparation:
    """A plan in fragments, its feeds and its checkpoint, before Spark has seen anything of it."""

    spark: SparkSession
    root: Node
    plan: FragmentPlan
    feeds: Mapping[str, Feed]
    consistency: Consistency
    checkpoint: Path
    buckets: int
    idle: Mapping[str, float]
    """By source: seconds after which it no longer holds up the others."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    def needs_no_state(self) -> bool:
        """Whether no operator keeps rows. A query that has kept state goes on with it."""
        recorded = recorded_query(self.checkpoint)
        promising = {name for name, feed in self.feeds.items() if feed.makes_promises}
        return (
            (recorded is None or recorded.facts.get("stateless", False))
            and not stamp_periods(self.plan.root)
            and keeps_nothing(self.plan, self.consistency, promising)
        )

    def without_state(self) -> Prepared:
        """One stage that answers chunks as they are read; the driver follows their promises."""
        (only,) = self.plan.fragments
        ids = bucket_ids(self.buckets)[:1]
        # Nothing waits for time to pass, and promises are for who reads the answers: no questions.
        read = self._read_sources(ids, asked_in=None)
        keeper = ProgressKeeper(
            only,
            self.consistency,
            self.checkpoint / "thalweg" / "promises.json",
            idle=_idle(only, self.idle),
        )
        spec = FragmentSpec(self.run, only, self.consistency, {}, {}, ids[0])
        return self._prepared(
            _union([*read.values()]),
            stateless=True,
            stage=StatelessStage(self.spark, spec, keeper),
        )

    def with_state(self) -> Prepared:
        """One stateful stage for each fragment, joined by exchanges."""
        ids = bucket_ids(self.buckets)
        read = self._read_sources(ids, asked_in=self.checkpoint)
        outputs: dict[int, DataFrame] = {}
        for fragment in self.plan.fragments:
            rows = _union(_read_by(fragment, read, outputs))
            if len(self.plan.fragments) > 1:
                rows = rows.where(col("fragment") == fragment.number)
            outputs[fragment.number] = self._stage(fragment, ids, rows)
        return self._prepared(
            with_observed_figures(outputs[self.plan.fragments[-1].number]),
            lags=lags(sources_of(self.plan)),
            receivers={
                name: feed
                for name in sources_of(self.plan)
                if isinstance(feed := self.feeds[name], Received)
            },
        )

    def _read_sources(self, ids: list[int], asked_in: Path | None) -> dict[str, DataFrame]:
        """The rows of each source, packed for the buckets of its readers. `asked_in`: the folder in
        which answers are asked for."""
        stamps = stamp_periods(self.plan.root)
        read = {}
        for name, source in sources_of(self.plan).items():
            ingest = Ingest(targets_of(self.plan, ids, source=name))
            log = str(log_of(self.checkpoint, name))
            rows = self.feeds[name].exchange(self.spark, ingest, source.columns, name, log)
            read[name] = with_ticker(self.spark, rows, ingest, source, stamps.get(name), asked_in)
        return read

    def _stage(self, fragment: Fragment, ids: list[int], rows: DataFrame) -> DataFrame:
        targets = targets_of(self.plan, ids, upstream=fragment.number)
        spec = FragmentSpec(
            self.run,
            fragment,
            self.consistency,
            parts_of(self.plan, fragment, ids),
            _idle(fragment, self.idle),
            ids[0],
            targets,
        )
        return rows.groupBy("bucket").transformWithState(
            ship(FragmentProcessor(spec)),
            EXCHANGE_COLUMNS if targets else OUTPUT_COLUMNS,
            "Append",
            "None",
        )

    def _summing(self) -> tuple[str, ...]:
        """Where the panes of each DataFrame are summed up, for `explain()`."""
        lines = []
        for name in sources_of(self.plan):
            feed = self.feeds[name]
            if isinstance(feed, Frame):
                ingest = Ingest(targets_of(self.plan, bucket_ids(self.buckets), source=name))
                summing = summing_of(self.spark, feed.df, ingest, feed.times)
                if summing is not None:
                    lines.append(f"source {name}: {summing_text(summing)}")
        return tuple(lines)

    def _prepared(self, output: DataFrame, *, stateless: bool = False, **others: Any) -> Prepared:
        identity = self._identity()
        if stateless:
            identity = identity.with_facts({"stateless": True})
        record = ProgressRecord(self.checkpoint, identity)
        return Prepared(
            self.spark,
            self.plan,
            output,
            self.buckets,
            record,
            self.consistency,
            self._settings(),
            tuple(sources_of(self.plan)),
            self._summing(),
            **others,
        )

    def _settings(self) -> dict[str, str]:
        frames = {name for name, feed in self.feeds.items() if isinstance(feed, Frame)}
        return {
            **needed_settings(self.spark),
            **CHECKPOINT_FILES,
            "spark.sql.shuffle.partitions": str(self.buckets),
            **(UNWEIGHED if _sums_only(self.plan, frames) else {}),
        }

    def _identity(self) -> QueryIdentity:
        """What must not change between two starts from one checkpoint, and beside it what operators
        are compared by, one by one, with their own state."""
        fragments = self.plan.fragments
        inputs = {
            str(fragment.number): [
                [entry.leaf.name, entry.upstream, [str(key) for key in entry.keys]]
                for entry in fragment.inputs
            ]
            for fragment in fragments
        }
        return QueryIdentity(
            {"fragments": inputs, "buckets": self.buckets, "consistency": self.consistency.mode},
            module_digests(self.root),
            {
                str(fragment.number): FragmentRunner(
                    fragment, self.consistency, parts={}
                ).signatures
                for fragment in fragments
            },
            {str(fragment.number): _words(fragment, self.root) for fragment in fragments},
        )


def _words(fragment: Fragment, root: Node) -> dict[str, str]:
    """What each operator does, as `explain` says it."""
    with shown_by(clock_of(root)):
        return {name: node.details for node, name in operator_ids(fragment.plan).items()}


def _sums_only(plan: FragmentPlan, frames: set[str]) -> bool:
    """Whether rows of DataFrames come in, and nothing is packed but sums of panes, which are
    few."""
    inputs = [entry for fragment in plan.fragments for entry in fragment.inputs]
    sources = {entry.source.name for entry in inputs if entry.source is not None}
    return bool(sources & frames) and all(
        entry.panes is not None for entry in inputs if entry.source is not None
    )


def _read_by(
    fragment: Fragment, read: Mapping[str, DataFrame], outputs: Mapping[int, DataFrame]
) -> list[DataFrame]:
    names = dict.fromkeys(
        entry.source.name for entry in fragment.inputs if entry.source is not None
    )
    numbers = dict.fromkeys(
        entry.upstream for entry in fragment.inputs if entry.upstream is not None
    )
    return [*(read[name] for name in names), *(outputs[number] for number in numbers)]


def _union(frames: list[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    return whole


def _idle(fragment: Fragment, idle: Mapping[str, float]) -> dict[str, float]:
    return {
        e.leaf.name: idle[e.source.name]
        for e in fragment.inputs
        if e.source is not None and e.source.name in idle
    }
