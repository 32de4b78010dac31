"""Everything that Spark's Python processes need, imported before they are forked."""

from __future__ import annotations

import pyspark.daemon
import pyspark.sql.datasource_internal
import pyspark.sql.streaming.proto.StateMessage_pb2
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker  # noqa: F401

import thalweg.shards.output.typed_rows
import thalweg.spark.sources.file_feed
import thalweg.spark.stages.processor  # noqa: F401
