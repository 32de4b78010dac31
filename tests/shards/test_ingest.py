"""Which columns of a source the rows of a query come from."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.shards.exchange.ingest import Ingest
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import targets_of

EVENTS = tw.source(
    "s", {"k": "string", "v": "int64", "w": "int64", "x": "string"}, insert_only=True
)


def columns_of(query: tw.Stream) -> frozenset[str] | None:
    return Ingest(targets_of(fragments_of(query.node), [0, 1], source="s")).columns


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (EVENTS, None),
        (EVENTS.where("v > 1"), None),
        (EVENTS.select("k", y="v + w"), {"k", "v", "w"}),
        (EVENTS.where("x = 'a'").select("k"), {"k", "x"}),
        (EVENTS.select("k", "v").where("v > 1"), {"k", "v"}),
        (EVENTS.group_by("k").tumbling(10).aggregate(s=tw.sum_("v")), {"k", "v"}),
        (EVENTS.where("w > 0").group_by("k").hopping(9, 3).aggregate(n=tw.count()), {"k", "w"}),
        (EVENTS.select("k").union(EVENTS.select(k="x")), {"k", "x"}),
    ],
)
def test_only_columns_that_a_query_looks_at_are_read(
    query: tw.Stream, expected: set[str] | None
) -> None:
    found = columns_of(query)
    assert found == (None if expected is None else expected)
