"""From a plan and its feeds to a Structured Streaming query: fragments joined by packed
exchanges."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, collect_list, lit, when
from pyspark.sql.functions import min as min_
from pyspark.sql.functions import sum as sum_

from thalweg.errors import PlanError, did_you_mean
from thalweg.model.clocks import shown_by
from thalweg.model.time import MIN_TIME, Duration, duration_us
from thalweg.operators.consistency import Consistency
from thalweg.plan.clock import clock_of
from thalweg.plan.explain import operator_ids
from thalweg.plan.nodes import Node
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.shards.asks import lags
from thalweg.shards.buckets import bucket_ids
from thalweg.shards.exchange import EXCHANGE_COLUMNS
from thalweg.shards.fragments import Fragment, FragmentPlan, parts_of, sources_of, targets_of
from thalweg.shards.ingest import Ingest
from thalweg.shards.module_digests import module_digests
from thalweg.shards.plan_cutting import fragments_of
from thalweg.shards.record import ProgressRecord, recorded_query
from thalweg.shards.stateless import ProgressKeeper, keeps_nothing
from thalweg.shards.worker import FragmentRunner
from thalweg.spark.feeds import Feed, Frame
from thalweg.spark.prepared import FIGURES, Prepared
from thalweg.spark.processor import OUTPUT_COLUMNS, FragmentProcessor, FragmentSpec
from thalweg.spark.receiver_feed import Received, bind_queues
from thalweg.spark.session import (
    CHECKPOINT_FILES,
    UNWEIGHED,
    check_session,
    current_session,
    needed_settings,
    parallelism,
)
from thalweg.spark.shipping import ship
from thalweg.spark.sources import feeds_of, log_of, name_sources, without_feeds
from thalweg.spark.stateless import StatelessStage
from thalweg.spark.ticker import with_ticker
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
    root = name_sources(query.node if isinstance(query, Stream) else query)
    feeds = bind_queues(root, {**feeds_of(root), **(feeds or {})})
    spark = spark or current_session()
    check_session(spark)
    plan = fragments_of(without_feeds(root))
    answers = Consistency(consistency, 0 if hold is None else duration_us(hold))
    count = buckets or parallelism(spark)
    sums_only = _sums_only(plan, {name for name, feed in feeds.items() if isinstance(feed, Frame)})
    settings = {
        **needed_settings(spark),
        **CHECKPOINT_FILES,
        "spark.sql.shuffle.partitions": str(count),
        **(UNWEIGHED if sums_only else {}),
    }
    ids = bucket_ids(count)
    sources = sources_of(plan)
    unknown = set(sources) - set(feeds)
    if unknown:
        raise PlanError(
            f"no feed for the source {min(unknown)!r}{did_you_mean(min(unknown), feeds)} Feeds: {', '.join(feeds) or 'none'}."
        )
    stamps = stamp_periods(plan.root)
    promising = {name for name, feed in feeds.items() if getattr(feed, "makes_promises", True)}
    recorded = recorded_query(Path(checkpoint))
    stateless = (
        by_batch
        and (recorded.get("stateless", False) or not recorded)
        and not stamps
        and keeps_nothing(plan, answers, promising)
    )
    if stateless:
        ids = ids[:1]
    read = {}
    for name, source in sources.items():
        ingest = Ingest(targets_of(plan, ids, source=name))
        rows = feeds[name].exchange(
            spark, ingest, source.columns, name, str(log_of(Path(checkpoint), name))
        )
        # Without state nothing waits, and promises are for who reads the answers.
        asked_in = None if stateless else Path(checkpoint)
        read[name] = with_ticker(spark, rows, ingest, source, stamps.get(name), asked_in)
    run = uuid.uuid4().hex
    identity = _identity(root, plan, count, consistency)
    identity["operators"] = {
        str(fragment.number): FragmentRunner(fragment, answers, parts={}).signatures
        for fragment in plan.fragments
    }
    identity["words"] = {
        str(fragment.number): _words(fragment, root) for fragment in plan.fragments
    }
    if stateless:
        (only,) = plan.fragments
        waits = _idle(only, idle or {})
        spec = FragmentSpec(run, only, answers, {}, {}, ids[0])
        keeper = ProgressKeeper(
            only, answers, Path(checkpoint) / "thalweg" / "promises.json", idle=waits
        )
        return Prepared(
            spark,
            plan,
            _union([read[name] for name in sources]),
            count,
            ProgressRecord(checkpoint, identity | {"stateless": True}),
            answers,
            settings,
            tuple(sources),
            stage=StatelessStage(spark, spec, keeper),
        )
    outputs: dict[int, DataFrame] = {}
    for fragment in plan.fragments:
        rows = _union([*_read_by(fragment, read, outputs)])
        if len(plan.fragments) > 1:
            rows = rows.where(col("fragment") == fragment.number)
        targets = targets_of(plan, ids, upstream=fragment.number)
        spec = FragmentSpec(
            run,
            fragment,
            answers,
            parts_of(plan, fragment, ids),
            _idle(fragment, idle or {}),
            ids[0],
            targets,
        )
        shape = EXCHANGE_COLUMNS if targets else OUTPUT_COLUMNS
        outputs[fragment.number] = rows.groupBy("bucket").transformWithState(
            ship(FragmentProcessor(spec)), shape, "Append", "None"
        )
    record = ProgressRecord(checkpoint, identity)
    return Prepared(
        spark,
        plan,
        _observed(outputs[plan.fragments[-1].number]),
        count,
        record,
        answers,
        settings,
        tuple(sources),
        lags=lags(sources),
        receivers={name: feed for name in sources if isinstance(feed := feeds[name], Received)},
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


def _identity(root: Node, plan: FragmentPlan, buckets: int, consistency: str) -> dict[str, Any]:
    """What must not change between two starts from one checkpoint; operators are compared with
    their own state."""
    inputs = {
        str(fragment.number): [
            [entry.leaf.name, entry.upstream, [str(key) for key in entry.keys]]
            for entry in fragment.inputs
        ]
        for fragment in plan.fragments
    }
    identity = {
        "fragments": inputs,
        "buckets": buckets,
        "consistency": consistency,
        "modules": module_digests(root),
    }
    loaded: dict[str, Any] = json.loads(json.dumps(identity))
    return loaded


def _observed(output: DataFrame) -> DataFrame:
    """Figures of each micro-batch, for progress reports; the promise of a query is that of its
    slowest bucket."""
    figures = [
        sum_(name).alias(name)
        for name in (
            "read",
            "taken",
            "changes",
            "adjusts",
            "late",
            "dead",
            "unwanted",
            "state_rows",
            "state_bytes",
            "written",
        )
    ]
    cti = min_(when(col("kind") == "figures", coalesce(col("cti"), lit(MIN_TIME)))).alias("cti")
    reports = collect_list(col("report")).alias("reports")
    return output.observe(FIGURES, cti, *figures, reports)


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
