"""`stream.plot()`: what a picture shows is what happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import thalweg as tw
from thalweg.errors import PlanError
from thalweg.run.story import story_of

#   row      1  2  3  4  5  6  7
STARTS = (2, 5, 12, 7, 21, 14, 24)


def counts() -> tw.Stream:
    rows = tw.source("rows", {"v": "int64"}, disorder=6, late="drop", insert_only=True)
    return rows.tumbling(10).aggregate(n=tw.count())


def given() -> dict[str, list[tw.Element]]:
    return {"rows": [tw.point({"v": 0}, start) for start in STARTS]}


def test_rows_stand_where_they_arrived_and_late_ones_are_marked() -> None:
    story = story_of(counts(), given())
    assert [(row.at, row.start) for row in story.rows] == list(enumerate(STARTS, start=1))
    assert [row.start for row in story.rows if row.late] == [14]


def test_promises_are_those_by_which_rows_are_late() -> None:
    assert story_of(counts(), given()).promises == [(1, -4), (2, -1), (3, 6), (5, 15), (7, 18)]


def test_answers_that_were_taken_back_are_told_apart() -> None:
    answers = story_of(counts(), given()).answers
    assert [(a.start, a.text, a.taken_back) for a in answers if a.start == 0] == [
        (0, "2", True),
        (0, "3", False),
    ]
    standing = sorted((a.start, a.end, {"n": int(a.text)}) for a in answers if not a.taken_back)
    assert standing == tw.table(counts(), given())


def test_final_answers_are_never_taken_back() -> None:
    story = story_of(counts(), given(), consistency="final")
    assert not any(answer.taken_back for answer in story.answers)


def test_a_picture_is_shown_and_kept(tmp_path: Path) -> None:
    drawn = counts().plot(given())
    shown = drawn._repr_svg_()
    assert "<svg" in shown
    drawn.save(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_times_and_two_sources() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rows = [{"ts": noon + timedelta(minutes=at), "k": at % 2} for at in (0, 7, 3)]
    left = tw.from_frame(rows, time="ts", duration="5 min", name="left")
    right = tw.from_frame(rows, time="ts", duration="5 min", name="right")
    story = story_of(left.join(right, on="k"))
    assert {row.source for row in story.rows} == {"left", "right"}
    axis = left.join(right, on="k").plot().figure.axes[1]
    assert axis.get_xlim()[0] == pytest.approx(noon.timestamp() / 86_400, abs=0.01)


def test_a_picture_has_its_limits() -> None:
    many = {"rows": [tw.point({"v": 0}, at) for at in range(300)]}
    with pytest.raises(PlanError, match="room for 200 rows"):
        counts().plot(many)


def test_a_source_without_input_is_named() -> None:
    with pytest.raises(PlanError, match="no input for the source 'rows'"):
        counts().plot()
