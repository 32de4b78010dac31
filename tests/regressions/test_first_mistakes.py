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
