"""What an operator needs to promise a time is the least promise that does it: one tick less does
not."""

from __future__ import annotations

from random import Random

import pytest

import thalweg as tw
from thalweg.model import Batch, Progress, batches_of
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.operators.registry import kernel_for
from thalweg.plan.nodes import Node

COLUMNS = {"k": "int64", "v": "int64"}
ROWS, ONLY = tw.source("s", COLUMNS), tw.source("s", COLUMNS, insert_only=True)
NODES: dict[str, Node] = {
    "bins": ONLY.slide_by_tuple(7).using("bins").aggregate(n=tw.count()).node,
    "by tuple": ROWS.slide_by_tuple(7).aggregate(n=tw.count()).node,
    "from the first row": ROWS.sliding(9, 4, origin=None).aggregate(n=tw.count()).node,
    "rank": ROWS.sliding(3, 2, over=tw.rank("ts")).aggregate(n=tw.count()).node,
    "landmark": ROWS.landmark(5).aggregate(n=tw.count()).node,
    "table": ROWS.group_by("k")
    .tumbling(5)
    .two_level(64, late=2)
    .aggregate(n=tw.count())
    .node.inputs[0],
}


def begun(node: Node, seed: int) -> Operator:
    random = Random(seed)
    kernel = kernel_for(node, Consistency("final"))
    rows = [
        tw.point({"k": random.randint(0, 3), "v": 1}, random.randint(0, 30))
        for _ in range(random.randint(0, 8))
    ]
    for batch in batches_of([*rows, tw.cti(0)], ROWS.schema):
        kernel.process(0, batch)
    return kernel


def promised(node: Node, seed: int, cti: int) -> int:
    return begun(node, seed).process(0, Batch.empty(ROWS.schema, Progress(cti))).progress.cti


@pytest.mark.parametrize("name", NODES)
def test_the_least_promise(name: str) -> None:
    for seed in range(25):
        time = Random(seed).randint(1, 40)
        (least,) = begun(NODES[name], seed).needs(time)
        assert promised(NODES[name], seed, least) >= time
        assert promised(NODES[name], seed, least - 1) < time
