"""Queries on Spark: from a plan and its feeds to a Structured Streaming query, and what to ask a running one.

frame(query, ...)   the streaming DataFrame of the changelog, for any Spark sink
start(query, ...)   a running query with a sink chosen here
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import from_arrow_schema

from thalweg.errors import PlanError, did_you_mean
from thalweg.model.time import Duration, duration_us
from thalweg.operators.consistency import Consistency
from thalweg.plan.nodes import Node
from thalweg.spark.buckets import bucket_ids
from thalweg.spark.egress import changelog_schema, unpack_changelog
from thalweg.spark.feeds import Feed
from thalweg.spark.fragments import Fragment, FragmentPlan, fragments_of, parts_of, sources_of, targets_of
from thalweg.spark.ingest import Ingest
from thalweg.spark.processor import OUTPUT_COLUMNS, FragmentProcessor, FragmentSpec
from thalweg.spark.session import check_session, session
from thalweg.spark.wire import EXCHANGE_COLUMNS
from thalweg.stream import Stream

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True)
class Prepared:
    """A query as Spark will run it: `output` is packed; `changelog` unpacks it."""

    spark: SparkSession
    plan: FragmentPlan
    output: DataFrame
    buckets: int

    def changelog(self, *, promises: bool = False) -> DataFrame:
        """The changes as typed rows, with `promises` the CTI of each bucket too."""
        schema = self.plan.root.schema
        shown = from_arrow_schema(changelog_schema(schema))
        return self.output.mapInArrow(unpack_changelog(schema, promises=promises), shown)


def prepare(
    query: Stream | Node,
    feeds: Mapping[str, Feed],
    *,
    checkpoint: str,
    consistency: str = "speculative",
    hold: Duration | None = None,
    buckets: int | None = None,
    idle: Mapping[str, float] | None = None,
    spark: SparkSession | None = None,
) -> Prepared:
    """Cut the query into fragments and join them by exchanges."""
    spark = spark or session()
    check_session(spark)
    plan = fragments_of(query.node if isinstance(query, Stream) else query)
    answers = Consistency(consistency, 0 if hold is None else duration_us(hold))
    count = buckets or spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(count))
    ids = bucket_ids(count)
    sources = sources_of(plan)
    unknown = set(sources) - set(feeds)
    if unknown:
        raise PlanError(f"no feed for the source {min(unknown)!r}{did_you_mean(min(unknown), feeds)} Feeds: {', '.join(feeds) or 'none'}.")
    read = {}
    for name, source in sources.items():
        ingest = Ingest(targets_of(plan, ids, source=name))
        log = Path(checkpoint) / "thalweg" / f"{name}.files"
        read[name] = feeds[name].exchange(spark, ingest, source.columns, f"source {name!r}", str(log))
    run = uuid.uuid4().hex
    outputs: dict[int, DataFrame] = {}
    for fragment in plan.fragments:
        rows = _union([*_read_by(fragment, read, outputs)])
        if len(plan.fragments) > 1:
            rows = rows.where(col("fragment") == fragment.number)
        targets = targets_of(plan, ids, upstream=fragment.number)
        spec = FragmentSpec(run, fragment, answers, parts_of(plan, fragment, ids), _idle(fragment, idle or {}), targets)
        shape = EXCHANGE_COLUMNS if targets else OUTPUT_COLUMNS
        outputs[fragment.number] = rows.groupBy("bucket").transformWithState(FragmentProcessor(spec), shape, "Append", "None")
    return Prepared(spark, plan, outputs[plan.fragments[-1].number], count)


def _read_by(fragment: Fragment, read: Mapping[str, DataFrame], outputs: Mapping[int, DataFrame]) -> list[DataFrame]:
    names = dict.fromkeys(entry.source.name for entry in fragment.inputs if entry.source is not None)
    numbers = dict.fromkeys(entry.upstream for entry in fragment.inputs if entry.upstream is not None)
    return [*(read[name] for name in names), *(outputs[number] for number in numbers)]


def _union(frames: list[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    return whole


def _idle(fragment: Fragment, idle: Mapping[str, float]) -> dict[str, float]:
    return {e.leaf.name: idle[e.source.name] for e in fragment.inputs if e.source is not None and e.source.name in idle}
