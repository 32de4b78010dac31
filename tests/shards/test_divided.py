"""Fragments, exchange, buckets and state slices, without Spark: the laws of all operators, and the
vectors."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.operators.test_laws import LAWS, used
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import CONSISTENCIES, assert_form_right, logical_inputs, make_form
from thalweg.testing._vector_data import Vector
from thalweg.testing.manner import PUNCTUATED, WILD
from thalweg.testing.vectors import read_vectors, run_vector

FILE = Path(__file__).parents[1] / "vectors" / "trill.jsonl"
VECTORS = [
    vector
    for vector in read_vectors(FILE.read_text(encoding="utf-8").splitlines())
    if isinstance(vector, Vector)
]
LOGICAL = [name for name in LAWS if not name.startswith("panes")]
"""Panes are made when a plan is cut into fragments: no query says them."""


@pytest.mark.parametrize(("number", "name"), list(enumerate(LOGICAL)), ids=LOGICAL)
def test_law(number: int, name: str) -> None:
    law = LAWS[name]
    query = law.build()
    logicals = logical_inputs(query, used(query, law.inputs(Random(f"{name}/divided"))))
    for manner in (PUNCTUATED, WILD):
        form = make_form(logicals, manner, Random(name))
        assert_form_right(
            query,
            form,
            consistency=CONSISTENCIES[number % len(CONSISTENCIES)],
            engine=DividedEngine,
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGICAL)
def test_law_at_length(name: str) -> None:
    law = LAWS[name]
    query = law.build()
    for seed in range(5):
        logicals = logical_inputs(query, used(query, law.inputs(Random(f"{name}/{seed}"))))
        for consistency in CONSISTENCIES:
            form = make_form(logicals, WILD, Random(f"{name}/{seed}/{consistency}"))
            assert_form_right(query, form, consistency=consistency, engine=DividedEngine)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_vector(vector: Vector) -> None:
    outcome = run_vector(vector, forms=4, engine=DividedEngine)
    assert outcome.status == "pass", outcome.detail
