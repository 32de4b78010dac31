"""The semantics of Trill, case by case: every vector passes under many physical forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from thalweg.testing._vector_data import Vector
from thalweg.testing.vectors import FORMS, read_vectors, run_vector

FILE = Path(__file__).parent / "trill.jsonl"
SHARED = Path(__file__).parents[3] / "shared" / "vectors" / "trill.jsonl"

VECTORS = [
    vector
    for vector in read_vectors(FILE.read_text(encoding="utf-8").splitlines())
    if isinstance(vector, Vector)
]


def test_all_cases_are_read() -> None:
    assert len(VECTORS) == 109
    assert len({vector.name for vector in VECTORS}) == 109
    assert FORMS >= 50


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_case(vector: Vector) -> None:
    outcome = run_vector(vector)
    assert outcome.status == "pass", outcome.detail


@pytest.mark.skipif(
    not SHARED.exists(), reason="the original of the vectors is not beside this checkout"
)
def test_the_copy_is_the_original() -> None:
    assert FILE.read_text(encoding="utf-8") == SHARED.read_text(encoding="utf-8")
