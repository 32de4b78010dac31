"""Extension is one file: a row operator and a join window that are defined here alone get the laws,
`explain`, restarts and the divided engine, without a line elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import PlanError
from thalweg.expr import Expr, col, lit
from thalweg.model import Row
from thalweg.model.batch import Batch
from thalweg.operators.base import Operator
from thalweg.plan.join_windows import JoinWindow
from thalweg.plan.nodes import Node
from thalweg.plan.nodes.families import RowOperator
from thalweg.plan.update_streams import check_update_rules
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.local_engine import DividedEngine
from thalweg.stream import Stream
from thalweg.testing import EngineType, assert_physically_independent
from thalweg.testing.oracle.scene import Scene, meaning

# ------------------------------------------------------------------------------------------------
# a row operator


@dataclass(frozen=True, eq=False)
class Clamp(RowOperator):
    """R' = {(s, e, p with column = min(max(column, low), high))}."""

    input: Node
    column: str
    low: int
    high: int

    def __post_init__(self) -> None:
        self._settle(self.input.schema, self.input.properties.but(payload_start_key=False))

    @property
    def progressing(self) -> frozenset[str]:
        return self.input.progressing - {self.column}

    def result_keys(self, *keys: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
        return None if any(self.column in key.columns() for key in keys[0]) else keys[0]

    def lower_keys(self, keys: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
        return None if any(self.column in key.columns() for key in keys) else keys

    @property
    def details(self) -> str:
        return f"{self.column} to [{self.low}, {self.high}]"

    def kernel(self) -> Operator:
        return ClampKernel(self)


class ClampKernel(Operator):
    def __init__(self, node: Clamp) -> None:
        self.schema = node.schema
        self._at = node.schema.get_field_index(node.column)
        self._low, self._high = node.low, node.high

    def process(self, port: int, batch: Batch) -> Batch:
        values = batch.payload.column(self._at)
        clamped = np.clip(values.to_numpy(zero_copy_only=False), self._low, self._high)
        columns = list(batch.payload.columns)
        columns[self._at] = pa.array(clamped, values.type)
        return batch.with_payload(pa.RecordBatch.from_arrays(columns, schema=self.schema))


@meaning(Clamp)
def clamp(node: Clamp, scene: Scene) -> list[Row]:
    return [
        (s, e, {**p, node.column: min(max(p[node.column], node.low), node.high)})
        for s, e, p in scene.rows(node.input)
    ]


# ------------------------------------------------------------------------------------------------
# a join window


@dataclass(frozen=True, slots=True)
class Soon(JoinWindow):
    """A right row that comes later than the left row, by less than `within`."""

    within: int

    def left(self) -> tuple[Expr, Expr]:
        return col("_start") + lit(1), col("_start") + lit(self.within)

    def right(self) -> tuple[Expr, Expr]:
        return col("_start"), col("_start") + lit(1)


# ------------------------------------------------------------------------------------------------
# what follows

COLUMNS = {"k": "int64", "v": "int64"}


def _rows(seed: str, count: int = 8) -> list[Row]:
    draw = Random(seed)
    starts = [draw.randrange(30) for _ in range(count)]
    return [
        (s, s + draw.randrange(1, 9), {"k": draw.randrange(2), "v": draw.randrange(-5, 9)})
        for s in starts
    ]


def _clamped() -> Stream:
    clamped = Stream(Clamp(tw.source("a", COLUMNS).where("v > -4").node, "v", 0, 5))
    return clamped.group_by("k").tumbling(10).aggregate(n=tw.count(), total=tw.sum_("v"))


def _soon() -> Stream:
    a, b = tw.source("a", COLUMNS), tw.source("b", COLUMNS)
    return a.window_join(b, "k", window=Soon(5), how="left")


@pytest.mark.parametrize("engine", [tw.Engine, DividedEngine])
def test_the_operator_obeys_the_law_with_restarts_on_both_engines(engine: EngineType) -> None:
    for query in (_clamped().node, Clamp(tw.source("a", COLUMNS).node, "v", 0, 5)):
        assert_physically_independent(query, {"a": _rows("clamp")}, forms=6, engine=engine)


@pytest.mark.parametrize("engine", [tw.Engine, DividedEngine])
def test_the_join_window_obeys_the_law_with_restarts_on_both_engines(engine: EngineType) -> None:
    inputs = {"a": _rows("left"), "b": _rows("right")}
    assert_physically_independent(_soon().node, inputs, forms=6, engine=engine)


def test_the_join_window_means_what_it_says() -> None:
    """Straight from its definition: l < r < l + within."""
    left, right = _rows("left"), _rows("right")
    pairs = sorted(
        (first, second)
        for first, _, one in left
        for second, _, two in right
        if one["k"] == two["k"] and first < second < first + 5
    )
    feeds = {
        name: [tw.insert(p, s, e) for s, e, p in rows] for name, rows in (("a", left), ("b", right))
    }
    found = [row for _, _, row in tw.table(_soon(), feeds) if row["right_time"] is not None]
    assert sorted((row["left_time"], row["right_time"]) for row in found) == pairs


def test_an_update_stream_passes_the_operator_unless_it_changes_the_key() -> None:
    quotes = tw.source("q", COLUMNS, insert_only=True).update_key("k")
    updates = check_update_rules(Clamp(quotes.node, "v", 0, 5))
    assert updates is not None
    assert (updates.source, updates.shown_keys) == ("q", "k")
    with pytest.raises(PlanError, match=r"clamp over 'q'.*the update key \(k\) must be passed on"):
        Stream(Clamp(quotes.node, "k", 0, 5))


def test_explain_and_fragments_know_them() -> None:
    assert "clamp-1  v to [0, 5]" in _clamped().explain()
    plan = fragments_of(_clamped().node)
    assert "before the exchange: clamp v to [0, 5]" in plan.describe()
    assert not plan.fragments[0].single
    assert "retime-1  from _start + 1 to _start + 5" in _soon().explain()
    assert "Clamp 1(column='v', low=0, high=5)" in Clamp(
        _clamped().node, "n", 0, 5
    ).signature.replace("'n'", "'v'")
