"""Sums, averages and variances are exact or refused, whatever the cuts, the strategy and what was
taken back in between."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.aggregates.limbs import Limbs
from thalweg.errors import EvaluationError
from thalweg.testing import final_table

NAN, INF = math.nan, math.inf
HARD = [0.0, -0.0, 1.0, -1.0, NAN, INF, -INF, 1e300, -1e300, 5e-324, 1e16, -1e16, 0.1, 1e15 + 3]


def source(kind: str = "double", *, insert_only: bool = False) -> tw.Stream:
    return tw.source("s", {"k": "int64", "v": kind}, insert_only=insert_only)


def run(query: tw.Stream, rows: list[tw.Element], cuts: int) -> list[object]:
    """The final table, with so many elements a batch."""
    engine = tw.Engine(query)
    out = []
    for at in range(0, len(rows), cuts):
        out += engine.push("s", rows[at : at + cuts])
    out += engine.finish()
    return final_table(out)


def values_of(query: tw.Stream, values: list[object], cuts: int = 100) -> list[object]:
    rows = [tw.point({"k": 1, "v": value}, 1) for value in values]
    return [row["x"] for _, _, row in run(query, rows, cuts)]
