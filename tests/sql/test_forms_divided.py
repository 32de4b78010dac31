"""What SQL makes of newer forms, divided into fragments and buckets: the same table as in one
piece."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.model.cht import table_of_batches
from thalweg.shards.local_engine import DividedEngine

FORMS = {
    "calendar": (
        "SELECT k, window_start, sum(v) AS n FROM CALENDAR(TABLE s, DESCRIPTOR(ts), 'day') GROUP BY"
        " k, window_start, window_end"
    ),
    "distinct": (
        "SELECT k, count(DISTINCT v) AS n FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '9' DAY) "
        "GROUP BY k, window_start"
    ),
    "over": (
        "SELECT k, sum(v) OVER (PARTITION BY k ORDER BY ts RANGE INTERVAL '1' DAY PRECEDING) AS n "
        "FROM s"
    ),
    "cumulate": (
        "SELECT k, window_end, sum(v) AS n FROM CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' DAY,"
        " INTERVAL '3' DAY) GROUP BY k, window_start, window_end"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_divided_is_whole(form: str) -> None:
    rng = Random(form)
    moments = [
        datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=rng.randrange(80_000))
        for _ in range(100)
    ]
    rows = pa.table(
        {
            "ts": pa.array(moments, pa.timestamp("us", "Europe/Berlin")),
            "k": [rng.randrange(3) for _ in moments],
            "v": [rng.randrange(4) for _ in moments],
        }
    )
    query = tw.sql(FORMS[form], s=tw.source("s", rows.schema, time="ts", insert_only=True))
    engine = DividedEngine(query)
    events = tw.events(rows, "ts")
    out = [batch for at in range(0, 100, 25) for batch in engine.push("s", events.slice(at, 25))]
    divided = table_of_batches([*out, *engine.finish()], query.schema)
    assert divided.num_rows and divided.equals(
        table_of_batches(list(tw.run(query, {"s": rows})), query.schema)
    )
