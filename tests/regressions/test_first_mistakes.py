"""What people get wrong in their first hour is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import ThalwegError

CALLS: Any = tw.source("calls", {"who": "string"})
HOST: Any = tw.Host


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (lambda: tw.Engine(CALLS.tumbling(10)), r"Finish it with \.aggregate"),
        (lambda: tw.table(CALLS.group_by("who"), {"calls": []}), r"Finish it with \.aggregate"),
        (lambda: HOST().add("q", CALLS.tumbling(10)), "the query 'q' must be a stream"),
        (lambda: tw.Engine(None), "the query must be a stream; got None"),  # type: ignore[arg-type]
        (lambda: tw.table(CALLS, [tw.point({"who": "a"}, 1)]), r"\{'calls': \[\.\.\.\]\}"),  # type: ignore[arg-type]
        (lambda: tw.source(5, {"k": "string"}), "the name of a source is text"),  # type: ignore[arg-type]
        (lambda: tw.source("s", {5: "string"}), "the name of a column is text"),  # type: ignore[dict-item]
        (lambda: tw.source("s", {"k": dict}), "unknown type 'dict'"),  # type: ignore[dict-item]
        (lambda: tw.source("s", {"k": 5}), "unknown type 5"),  # type: ignore[dict-item]
        (lambda: tw.source("s", {"k": "string"}, quarantine=5), "quarantine= takes"),  # type: ignore[arg-type]
        (lambda: tw.sequence([CALLS, CALLS], "who"), "give the steps by name"),  # type: ignore[arg-type]
        (lambda: tw.Engine(CALLS).why("noon"), "got 'noon'"),  # type: ignore[arg-type]
        (lambda: tw.Engine(CALLS).why(1.5), r"got 1\.5"),  # type: ignore[arg-type]
        (lambda: tw.Engine(CALLS).skip_before("noon"), "got 'noon'"),  # type: ignore[arg-type]
    ],
)
def test_a_mistake_is_refused(mistake: Callable[[], object], says: str) -> None:
    with pytest.raises(ThalwegError, match=says):
        mistake()


def test_a_categorical_of_polars_is_read() -> None:
    """It comes as a dictionary of views."""
    letters = pa.array(["a", "b", "a"]).dictionary_encode()
    views = pa.DictionaryArray.from_arrays(
        letters.indices, letters.dictionary.cast(pa.string_view())
    )

    class Frame:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            table = pa.table({"ts": [1, 2, 3], "c": views})
            return table.__arrow_c_stream__(requested_schema)

    for frame in (Frame(), pa.table({"ts": [1, 2, 3], "c": views})):
        counts = tw.from_frame(frame, time="ts").group_by("c").tumbling(5).aggregate(n=tw.count())
        assert [(row["c"], row["n"]) for _, _, row in tw.table(counts)] == [("a", 2), ("b", 1)]


def test_the_types_of_python_are_types() -> None:
    made = tw.source("s", {"i": int, "f": float, "t": str, "b": bool})  # type: ignore[dict-item]
    assert made.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.bool_()]


def test_equivalent_tables_with_nan() -> None:
    one = [tw.insert({"v": float("nan")}, 1, 2), tw.insert({"v": 0.0}, 1, 2)]
    two = [tw.insert({"v": -0.0}, 1, 2), tw.insert({"v": float("nan")}, 1, 2)]
    assert tw.equivalent(one, two) and not tw.equivalent(one, one[:1])
    assert tw.equivalent([], []) and not tw.equivalent(one, [one[0], tw.insert({"v": 0.0}, 1, 3)])
