"""On real Spark: one law for each family of operators, with a restart in the middle, and vectors
(windows: `test_windows_on_spark`).

`tests/shards/test_divided.py` plays all of them on the same fragments without Spark.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from tests.operators.test_laws import LAWS, SNAPSHOT, TUMBLING, A, Law, N, aggregate, finite, used
from thalweg.plan.aggregates import max_
from thalweg.testing import (
    CONSISTENCIES,
    RESTART,
    Form,
    Manner,
    assert_form_right,
    logical_inputs,
    make_form,
)
from thalweg.testing._vector_data import Vector
from thalweg.testing.spark_engine import SparkEngine
from thalweg.testing.vectors import main, read_vectors, run_vector

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

FILE = Path(__file__).parents[1] / "vectors" / "trill.jsonl"
VECTORS = {
    v.name: v
    for v in read_vectors(FILE.read_text(encoding="utf-8").splitlines())
    if isinstance(v, Vector)
}

CHAINED = Law(
    lambda: aggregate(
        TUMBLING,
        ("m", max_("n")),
        *N,
        node=aggregate(SNAPSHOT, *N, node=A, keys=("k", "v")),
        keys=("v",),
    ),
    finite,
)
CHOSEN = {
    name: LAWS[name]
    for name in (
        "where",
        "shift by an expression",
        "union",
        "join inner with a predicate",
        "join left with null keys",
        "join anti",
        "window_join full, band",
        "window_join of a window_join",
        "asof_join within",
        "clip_by",
        "distinct with nulls",
        "top_k per group, ranked, over snapshot",
        "avg over snapshot",
        "two keys over hopping",
        "two keys over session",
        "group, nested",
        "stitch",
        "window_join band",
        "window_join full, same window, with a predicate",
        "window_join semi, widjoin",
        "join_all",
        "asof_join within",
        "tumbling after window_join",
    )
} | {"two fragments with different keys": CHAINED}
VARIED = Manner(detours=0.5, spurious=1, disorder=8, promises=0.3, cut=0.2, delay=0.3)


def restarted(law: Law, name: str) -> Form:
    """A form in a handful of batches, with a restart in the middle."""
    query = law.build()
    steps = list(
        make_form(
            logical_inputs(query, used(query, law.inputs(Random(f"{name}/spark")))),
            VARIED,
            Random(name),
        ).steps
    )
    half = max(1, len(steps) // 2)
    return Form([*steps[:half], RESTART, *steps[half:]])


@pytest.mark.parametrize(("number", "name"), list(enumerate(CHOSEN)), ids=list(CHOSEN))
def test_law(number: int, name: str) -> None:
    law = CHOSEN[name]
    assert_form_right(
        law.build(),
        restarted(law, name),
        consistency=CONSISTENCIES[number % len(CONSISTENCIES)],
        engine=SparkEngine,
    )


JOINS = [name for name in LAWS if "window_join" in name or name.startswith(("join", "asof_join"))]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "name"), list(enumerate(JOINS)), ids=JOINS)
def test_any_join(number: int, name: str) -> None:
    law = LAWS[name]
    assert_form_right(
        law.build(),
        restarted(law, name),
        consistency=CONSISTENCIES[number % len(CONSISTENCIES)],
        engine=SparkEngine,
    )


FEW = [
    "equijoin_points",
    "group_count_sliding_3s",
    "guide_disorder_throw",
    "partitioned_low_watermark",
    "pattern_an_bn_non_overlapping",
    "select_many_variable",
    "session_grouped_1",
    "snapshot_sum_double",
    "snapshot_topk_fewer_than_k",
]


@pytest.mark.parametrize("name", FEW)
def test_vector(name: str) -> None:
    outcome = run_vector(VECTORS[name], forms=1, engine=SparkEngine)
    assert outcome.status == "pass", outcome.detail


@pytest.mark.slow
@pytest.mark.parametrize("name", VECTORS)
def test_any_vector(name: str) -> None:
    outcome = run_vector(VECTORS[name], forms=2, engine=SparkEngine)
    assert outcome.status == "pass", outcome.detail


def test_the_command_plays_vectors_on_spark(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cases.jsonl"
    case = {
        "name": "wrong",
        "op": {"op": "shift", "by": 10, "in": {"op": "source", "name": "s0"}},
        "inputs": {"s0": [["insert", 5, 6, {"v": 1}]]},
        "expected_table": [[5, 6, {"v": 1}]],
    }
    file.write_text(json.dumps(case), encoding="utf-8")
    assert main([str(file), "--engine", "spark", "--forms", "1"]) == 1
    (line,) = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert (line["name"], line["status"]) == ("wrong", "fail")
    assert "(15, 16, {'v': 1})" in line["detail"], "what Spark answered instead"
