"""Users' columns may be called anything that a kernel calls its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import PlanError, SchemaChangeError, UnknownColumnError
from thalweg.io.files import FileForm, read_file
from thalweg.io.listing import FilePlace
from thalweg.stream import WindowedStream

NAMES = [
    "n",
    "c0",
    "s0",
    "x0",
    "t0",
    "rows",
    "count",
    "_k",
    "_of0",
    "_if0",
    "_w",
    "_count",
    "_mark",
    "_since",
    "_group",
    "_order",
    "_read0",
    "_tie0",
    "_first",
    "_beyond",
    "_window",
    "window",
]


def windows(stream: tw.Stream, key: str) -> dict[str, WindowedStream]:
    grouped = stream.group_by("k", key)
    return {
        "landmark": grouped.landmark(4),
        "rank": grouped.sliding(2, 1, over=tw.rank("ts")),
        "rows": grouped.sliding(2, 1, over=tw.rows()),
        "slide by tuple": grouped.slide_by_tuple(5),
        "sliding": grouped.sliding(4, 2),
        "hopping": grouped.hopping(4, 2),
        "session": grouped.session(3),
        "snapshot": grouped.snapshot(),
        "two level": grouped.tumbling(4).two_level(64),
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_key_with_the_name_of_an_internal_column(name: str) -> None:
    rows = [tw.point({"k": at % 2, name: 1, "v": at}, at) for at in range(6)]
    plain = [tw.point({"k": at % 2, "key": 1, "v": at}, at) for at in range(6)]
    for kind in windows(tw.source("s", {"k": "int64", "key": "int64", "v": "int64"}), "key"):
        answers = []
        for key, feed in ((name, rows), ("key", plain)):
            stream = tw.source("s", {"k": "int64", key: "int64", "v": "int64"}, insert_only=True)
            query = windows(stream, key)[kind].aggregate(total=tw.sum_("v"), many=tw.count())
            if kind != "two level":
                query = windows(stream, key)[kind].aggregate(
                    total=tw.sum_("v"), many=tw.count(), most=tw.max_("v"), a=tw.first("k")
                )
            engine = tw.Engine(query)
            engine.push("s", feed[:3])
            engine = tw.Engine.restore(query, engine.snapshot())
            engine.push("s", feed[3:])
            answers.append([list(row.values()) for _, _, row in tw.table(query, {"s": feed})])
        assert answers[0] == answers[1], kind


def test_the_names_of_internal_columns_are_refused() -> None:
    with pytest.raises(PlanError, match="internal columns"):
        tw.source("s", {"\x1frows": "int64"})


def test_names_from_a_file_stay_in_one_line_of_a_message(tmp_path: Path) -> None:
    """A quote that was not closed makes a name of half of the file."""
    (tmp_path / "a.csv").write_text('ts,"k,2026\n3,a\x1b[31m",v\n1,b,2\n', encoding="utf-8")
    form = FileForm("csv", pa.schema([("ts", pa.int64()), ("k", pa.string())]))
    with pytest.raises(SchemaChangeError) as caught:
        list(read_file(FilePlace(str(tmp_path)), "a.csv", form, ["ts", "k"]))
    assert str(caught.value).isprintable() and "no column 'k'" in str(caught.value)
    with pytest.raises(UnknownColumnError) as unknown:
        raise UnknownColumnError("k", ["a\nb"])
    assert "\n" not in str(unknown.value).partition("\n  at")[0]
