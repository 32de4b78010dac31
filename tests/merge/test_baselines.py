"""The merges that LMerge is compared with give the same table on a stream that suits them all."""

from __future__ import annotations

from itertools import zip_longest

import pyarrow as pa
import pytest

from benchmarks.repro.merge_streams import MERGES, SCHEMA, forms, make_merge
from benchmarks.repro.revised_counts import COUNTS, revised_counts
from thalweg.model import Batch, first_violation_in_batches, table_of_batches


def merged(
    name: str, streams: list[list[Batch]], schema: pa.Schema = SCHEMA, **options: object
) -> list[Batch]:
    merge = make_merge(name, schema, len(streams), **options)
    turns = zip_longest(*streams)
    return [
        merge.process(port, batch)
        for turn in turns
        for port, batch in enumerate(turn)
        if batch is not None
    ]


@pytest.mark.parametrize("name", MERGES)
def test_every_merge_gives_the_table_of_its_inputs(name: str) -> None:
    streams = forms(600, 3, bytes_=8, live=50, stable=0.05)
    expected = table_of_batches(streams[0], SCHEMA)
    out = merged(name, streams)
    assert table_of_batches(out, SCHEMA) == expected
    assert first_violation_in_batches(out) is None


@pytest.mark.parametrize(
    "name", ["R3+", "R3-", "R4", "C+R1", "sort and drop", "sort and drop, as it goes"]
)
def test_those_that_take_disorder_do_so(name: str) -> None:
    streams = forms(600, 3, bytes_=8, live=50, stable=0.05, disorder=0.3, same=False)
    expected = table_of_batches(streams[0], SCHEMA)
    out = merged(name, streams)
    assert table_of_batches(out, SCHEMA) == expected
    assert first_violation_in_batches(out) is None


@pytest.mark.parametrize("name", ["R3+", "R4", "sort and drop, as it goes"])
def test_those_that_take_adjusts_do_so(name: str) -> None:
    streams = [revised_counts(400, 0.3, stable=0.1, form=form) for form in range(3)]
    schema = COUNTS.node.schema
    out = merged(name, streams, schema)
    assert table_of_batches(out, schema) == table_of_batches(streams[0], schema)
    assert first_violation_in_batches(out) is None
