"""With `keep`, rows of inputs that have left: each as often as the one had it that had it most
often."""

from __future__ import annotations

import pyarrow as pa

import thalweg as tw
from thalweg.merging import Merger
from thalweg.model import INFINITY, Element, cht, elements_of
from thalweg.plan.merging import MergePolicy

ROW = {"n": 1}


def test_inputs_that_left_with_different_ends_of_one_row_keep_it_once() -> None:
    merger = Merger(pa.schema([("n", pa.int64())]), level="R4", policy=MergePolicy(missing="keep"))
    sent: dict[str, list[Element]] = {
        "a": [tw.insert(ROW, 0, 5), tw.cti(1)],
        "b": [tw.insert(ROW, 0, INFINITY), tw.cti(1)],
        "c": [tw.cti(0)],
    }
    for name in sent:
        merger.attach(name)
    out = [batch for name, elements in sent.items() for batch in merger.push(name, elements)]
    for name in ("a", "b"):
        out += merger.detach(name)
    out += merger.push("c", [tw.cti(INFINITY)])
    assert len(cht(elements_of(out))) == 1
