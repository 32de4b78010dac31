"""Promises that were unsound, stood still, or took answers back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

import thalweg as tw
from thalweg import adjust, cti, insert
from thalweg.errors import LifetimeError
from thalweg.model import (
    INFINITY,
    Element,
    Insert,
    batches_of,
    first_violation,
    first_violation_in_batches,
)
from thalweg.model.punctuation import before, punctuation, within

VALUE = {"v": "int64"}


def run(query: tw.Stream, elements: Sequence[Element], consistency: str = "final") -> list[Element]:
    """The output of one source's elements, pushed one by one."""
    engine = tw.Engine(query, consistency=consistency)
    out = [batch for element in elements for batch in engine.push("s", element)]
    out += engine.finish()
    assert first_violation_in_batches(out) is None
    return list(tw.elements_of(out))


@pytest.mark.parametrize("form", ["rows", "snapshot", "distinct"])
def test_a_cti_for_the_group_nan_comes_after_its_rows(form: str) -> None:
    stream = tw.source("s", {"k": "float64"})
    query = {
        "rows": stream,
        "snapshot": stream.group_by("k").snapshot().aggregate(n=tw.count()),
        "distinct": stream.distinct(),
    }[form]
    elements: list[Element] = [insert({"k": math.nan}, 1, 5), cti(10, {"k": float("nan")}), cti(4)]
    out = run(query, elements)
    assert isinstance(out[0], Insert) and out[1].scope is not None  # type: ignore[union-attr]


def test_the_soundness_check_knows_the_group_nan() -> None:
    broken: list[Element] = [cti(10, {"k": math.nan}), insert({"k": float("nan")}, 1, 5)]
    assert first_violation(broken) is not None
    batches = list(batches_of(broken, tw.source("s", {"k": "float64"}).schema))
    assert first_violation_in_batches(batches) is not None


def test_final_holds_the_open_piece_of_a_chopped_row() -> None:
    query = tw.source("s", VALUE).set_duration(None).chop(5)
    out = run(query, [insert({"v": 1}, 3), cti(7), cti(12)])
    assert out[:4] == [insert({"v": 1}, 3, 5), cti(5), insert({"v": 1}, 5, 10), cti(10)]
    assert all(isinstance(e, (Insert, tw.Cti)) for e in out)


def test_a_late_row_that_came_to_nothing_may_grow_again() -> None:
    source = tw.source("s", VALUE, late="adjust")
    out = run(
        source,
        [
            cti(19),
            insert({"v": 1}, 18),
            adjust({"v": 1}, 18, None, 19),
            adjust({"v": 1}, 18, 19, 21),
        ],
    )
    assert out[1] == insert({"v": 1}, 19, 21)


def test_null_times_of_an_outer_join_make_no_promise() -> None:
    """The right time of a row without a partner is null, and the next join reads it."""
    a, b, c = (tw.source(name, {"k": "int64", f"v{name}": "int64"}) for name in "abc")
    near = tw.band(before=2, after=2)
    query = a.window_join(b, "k", window=near, how="full").window_join(
        c, "k", window=near, times=("x", "y")
    )
    rows: dict[str, list[Element]] = {
        "a": [tw.point({"k": 1, "va": 1}, 0)],
        "b": [tw.point({"k": 1, "vb": 1}, 20)],
        "c": [tw.point({"k": 1, "vc": 1}, 1), cti(30)],
    }
    (row,) = tw.table(query, rows)
    assert (row[2]["x"], row[2]["right_time"], row[2]["y"]) == (0, None, 1)


def test_a_wrong_constant_duration_is_refused() -> None:
    engine = tw.Engine(tw.source("s", VALUE, constant_duration=5))
    engine.push("s", insert({"v": 1}, 3, 8))
    with pytest.raises(LifetimeError, match="constant_duration=5"):
        engine.push("s", insert({"v": 1}, 3, 9))
    with pytest.raises(LifetimeError, match="constant_duration=5"):
        engine.push("s", adjust({"v": 1}, 3, 8, 7))
    engine.push("s", tw.remove({"v": 1}, 3, 8))


def test_a_wrong_firm_end_is_refused() -> None:
    engine = tw.Engine(tw.source("s", VALUE, firm_ends=True), consistency="final")
    engine.push("s", insert({"v": 1}, 3, 8))
    with pytest.raises(LifetimeError, match="firm_ends"):
        engine.push("s", adjust({"v": 1}, 3, 8, 12))
    engine.push("s", tw.remove({"v": 1}, 3, 8))


def test_a_source_that_moves_late_rows_has_no_constant_duration() -> None:
    moved = tw.source("s", VALUE, constant_duration=5, firm_ends=True, late="adjust")
    assert moved.properties.constant_duration is None
    assert not moved.properties.firm_ends


@pytest.mark.parametrize(("size", "hop", "fine"), [(10, 3, None), (3, 10, None), (4, 6, 2)])
def test_quantize_promises_what_it_can(size: int, hop: int, fine: int | None) -> None:
    query = tw.source("s", VALUE).quantize(size, hop, progress=fine)
    engine = tw.Engine(query)
    engine.push("s", insert({"v": 1}, 3, 4))
    engine.push("s", cti(25))
    grid = hop if fine is None else fine
    assert engine.status().progress.cti == 25 // grid * grid


GROUPED = tw.source("s", {"k": "int64", "v": "int64"}, group_ctis="k")
BY_MORE_COLUMNS = {
    "landmark": GROUPED.group_by("k", "v").landmark(10).aggregate(n=tw.count()),
    "session": GROUPED.group_by("k", "v").session(4).aggregate(n=tw.count()),
    "tumbling": GROUPED.group_by("k", "v").tumbling(10).aggregate(n=tw.count()),
    "count by start": GROUPED.group_by("k", "v").count_by_start(2).aggregate(n=tw.count()),
    "count by end": GROUPED.group_by("k", "v").count_by_end(2).apply("average", "v"),
    "rank": GROUPED.sliding(2, 1, over=tw.rank("ts"), partition_by=["k", "v"]).aggregate(
        n=tw.count()
    ),
    "slide by tuple": GROUPED.slide_by_tuple(7, partition_by=["k", "v"]).aggregate(n=tw.count()),
}


@pytest.mark.parametrize("consistency", ["eager", "speculative", "final"])
@pytest.mark.parametrize("name", BY_MORE_COLUMNS)
def test_a_promise_for_a_group_holds_for_its_parts_to_come(name: str, consistency: str) -> None:
    """A promise names fewer columns than the windows: the part (0, 2) has no rows when it comes,
    and then a window that begins before it."""
    query = BY_MORE_COLUMNS[name]
    rows = [insert({"k": 0, "v": v}, at, at + 1) for v, at in ((1, 3), (2, 16), (2, 17), (1, 18))]
    run(query, [rows[0], cti(16, {"k": 0}), *rows[1:], cti(30, {"k": 0})], consistency)
    run(query, [cti(16, {"k": 0}), *rows[1:]], consistency)


PARTS = GROUPED.group_by("k", "v")
MODULES = {
    "snapshot": PARTS.snapshot().apply("median", "v"),
    "session": PARTS.session(1).apply("time_weighted_average", "v"),
    "count by start": PARTS.count_by_start(1).apply("average", "v", on_error="skip"),
    "count by end": PARTS.count_by_end(1).apply("average", "v", on_error="skip"),
}


@pytest.mark.parametrize("consistency", ["eager", "speculative", "final"])
@pytest.mark.parametrize("name", MODULES)
def test_a_promise_for_a_group_holds_for_parts_that_come_with_it(
    name: str, consistency: str
) -> None:
    """In one batch the first row of the part (0, 1) and a promise for 0 that is behind its end."""
    engine = tw.Engine(MODULES[name], consistency=consistency)
    out = engine.push("s", [insert({"k": 0, "v": 1}, 3, 4), cti(9, {"k": 0})])
    out += engine.push("s", cti(20)) + engine.finish()
    assert first_violation_in_batches(out) is None


AT_THE_PROMISE = {
    "rows": lambda windows: windows.aggregate(p=tw.percentile("v", 0.5)),
    "top": lambda windows: windows.top_k(1, by="v"),
    "sums": lambda windows: windows.aggregate(n=tw.count()),
    "module": lambda windows: windows.apply("median", "v"),
    "module in steps": lambda windows: windows.apply("average", "v"),
}


@pytest.mark.parametrize("consistency", ["eager", "speculative", "final"])
@pytest.mark.parametrize(("size", "hop"), [(10, 10), (10, 5), (15, 30), (1, 1), (1, 3)])
@pytest.mark.parametrize("name", AT_THE_PROMISE)
def test_an_end_at_the_promise_of_its_group_may_move(
    name: str, size: int, hop: int, consistency: str
) -> None:
    """The promise closes windows of the group; a row that ends at it or later is still needed."""
    query = AT_THE_PROMISE[name](GROUPED.group_by("k").hopping(size, hop))
    payload = {"k": 0, "v": 1}
    for promise, more in ((47, 4), (50, 0), (60, 0), (31, 0)):
        for moved in (promise, promise + 5, promise + 40):
            out = run(
                query,
                [
                    insert(payload, 20, promise + more),
                    cti(promise, {"k": 0}),
                    adjust(payload, 20, promise + more, moved),
                ],
                consistency,
            )
            assert tw.cht(out) == tw.table(query, {"s": [insert(payload, 20, moved)]})


def test_the_common_promise_moves_when_the_group_that_held_it_back_is_closed() -> None:
    """A window of three rows had begun at 6; the promise for its group lets it answer."""
    query = BY_MORE_COLUMNS["count by start"]
    engine = tw.Engine(query)
    engine.push("s", [tw.point({"k": 1, "v": 1}, at) for at in (6, 28)])
    engine.push("s", cti(18))
    assert engine.status().progress.cti == 6
    engine.push("s", tw.point({"k": 1, "v": 1}, 36))
    engine.push("s", cti(45, {"k": 1}))
    assert engine.status().progress.cti == 18


@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
def test_an_end_may_move_of_a_row_that_the_promise_of_its_group_has_closed(
    consistency: str,
) -> None:
    """The window by the start of the row is over, the row is forgotten, and as nothing is held of
    its group so is the promise."""
    events = tw.source("s", {"k": "string", "v": "int64"}, group_ctis="k")
    query = events.group_by("k").count_by_start(1).apply("time_weighted_average", "v")
    row = {"k": "a", "v": 1}
    out = run(
        query,
        [
            insert(row, 3, 27),
            cti(4, {"k": "a"}),
            adjust(row, 3, 27, 33),
            adjust(row, 3, 33, 9),
        ],
        consistency,
    )
    assert tw.cht(out) == tw.table(query, {"s": [insert(row, 3, 9)]})


@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
def test_rows_that_ended_before_the_promise_of_their_group_stay_while_a_window_is_open(
    consistency: str,
) -> None:
    """The window is evaluated again for a row behind the promise, and needs the one before it."""
    events = tw.source("s", {"k": "int64", "s": "string"}, group_ctis="k")
    pairs = {"first": "a", "second": "b", "within": 5}
    query = events.group_by("k").tumbling(10).apply("followed_by", "s", params=pairs)
    row, later = insert({"k": 0, "s": "a"}, 2, 3), insert({"k": 0, "s": "b"}, 4, 5)
    out = run(query, [row, cti(4, {"k": 0}), later], consistency)
    assert tw.cht(out) == tw.table(query, {"s": [row, later]}) != []


def _hopping_forms(size: int, hop: int) -> dict[str, tw.Stream]:
    windows = (
        tw.source("s", {"k": "string", **VALUE}, group_ctis="k").group_by("k").hopping(size, hop)
    )
    return {
        "sums": windows.aggregate(n=tw.count()),
        "rows": windows.aggregate(mid=tw.percentile("v", 0.5)),
        "largest": windows.aggregate(most=tw.max_("v")),
        "top_k": windows.top_k(1, by="v"),
        "module": windows.apply("median", "v"),
    }


@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
@pytest.mark.parametrize(("size", "hop"), [(10, 10), (20, 10), (9, 13)])
@pytest.mark.parametrize("form", _hopping_forms(1, 1))
def test_a_later_end_and_the_end_of_its_group_may_come_together(
    form: str, size: int, hop: int, consistency: str
) -> None:
    """Windows up to the new end answer before the group is forgotten."""
    query = _hopping_forms(size, hop)[form]
    row = {"k": "a", "v": 1}
    engine = tw.Engine(query, consistency=consistency)
    out = engine.push("s", [insert(row, 21, 26), cti(25), cti(26, {"k": "a"})])
    out += engine.push("s", [tw.adjust(row, 21, 26, 41), cti(None, {"k": "a"})])
    out += engine.finish()
    assert first_violation_in_batches(out) is None
    assert tw.cht(list(tw.elements_of(out))) == tw.table(query, {"s": [insert(row, 21, 41)]})


@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
@pytest.mark.parametrize(("size", "hop"), [(10, 10), (20, 5), (5, 12)])
@pytest.mark.parametrize("form", _hopping_forms(1, 1))
def test_a_row_that_loses_its_end_and_a_later_promise_for_its_group_may_come_together(
    form: str, size: int, hop: int, consistency: str
) -> None:
    """The group is promised as far as times have come, like that of a row that came endless."""
    query = _hopping_forms(size, hop)[form]
    row, other = {"k": "a", "v": 1}, insert({"k": "b", "v": 2}, 80, 83)
    engine = tw.Engine(query, consistency=consistency)
    out = engine.push("s", insert(row, 0, 5))
    out += engine.push("s", [tw.adjust(row, 0, 5, INFINITY), cti(50, {"k": "a"})])
    out += engine.push("s", [other, cti(40), tw.adjust(row, 0, INFINITY, 60)])
    out += engine.finish()
    assert first_violation_in_batches(out) is None
    assert tw.cht(list(tw.elements_of(out))) == tw.table(query, {"s": [insert(row, 0, 60), other]})


@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
@pytest.mark.parametrize("left_columns", ["k", ("k", "v")])
def test_a_side_whose_groups_the_common_promise_has_passed_names_no_groups(
    left_columns: str | tuple[str, str], consistency: str
) -> None:
    """Both sides promise for groups over different columns; once the left has none that are ahead,
    the groups of the join are those of the right."""
    columns = {"k": "int64", "v": "int64"}
    left = tw.source("left", columns, group_ctis=left_columns)
    right = tw.source("right", columns, group_ctis="v")
    query = left.join(right, ["k", "v"])
    named = dict.fromkeys([left_columns] if isinstance(left_columns, str) else left_columns, 1)
    row = {"k": 1, "v": 2}
    engine = tw.Engine(query, consistency=consistency)
    out = engine.push("left", [cti(3), cti(13, named), cti(13)])
    out += engine.push("right", [cti(3), cti(10, {"v": 1})])
    out += engine.push("right", insert(row, 5, 30)) + engine.push("right", cti(6))
    out += engine.push("left", insert(row, 13, 40)) + engine.finish()
    assert first_violation_in_batches(out) is None
    scopes = [e.scope for e in tw.elements_of(out) if isinstance(e, tw.Cti) and e.scope]
    assert scopes == [{"v": 1}]
    assert tw.cht(list(tw.elements_of(out))) == [(13, 30, row)]


@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
@pytest.mark.parametrize("revise", ["every", "leader"])
def test_a_merge_that_revises_early_does_not_count_as_one_that_never_revises(
    revise: str, consistency: str
) -> None:
    """The rows that the first input has shown are taken back when the second one leads, and come
    again with it; final answers wait for that."""
    one, two = (
        tw.source(name, VALUE, payload_start_key=True, insert_only=True) for name in ("one", "two")
    )
    query = tw.merge(one, two, level="R3", revise=revise)  # type: ignore[arg-type]
    row = insert({"v": 0}, 22, 40)
    engine = tw.Engine(query, consistency=consistency)
    out = engine.push("one", row) + engine.push("two", cti(22)) + engine.push("two", row)
    out += engine.push("two", cti(50)) + engine.finish()
    assert first_violation_in_batches(out) is None
    elements = list(tw.elements_of(out))
    assert tw.cht(elements) == [(22, 40, {"v": 0})]
    revised = any(isinstance(element, tw.Adjust) for element in elements)
    assert not (revised and (query.node.properties.insert_only or consistency == "final"))


BEHIND_TWO_INPUTS = {
    "join": lambda joined: joined,
    "distinct": lambda joined: joined.distinct(),
    "anti join": lambda joined: joined.anti_join(joined.where("v > 2"), ["k", "v"]),
    "snapshot": lambda joined: joined.group_by("k", "v").snapshot().aggregate(n=tw.count()),
    "sums": lambda joined: joined.group_by("k", "v").tumbling(5).aggregate(n=tw.count()),
    "largest": lambda joined: joined.group_by("k", "v").hopping(6, 3).aggregate(n=tw.max_("v")),
    "module": lambda joined: joined.group_by("k", "v").tumbling(5).apply("median", "v"),
    "two levels": lambda joined: (
        joined.group_by("k", "v").tumbling(4).two_level(4).aggregate(n=tw.count())
    ),
}


@pytest.mark.parametrize("consistency", ["speculative", "final"])
@pytest.mark.parametrize("name", BEHIND_TWO_INPUTS)
def test_the_groups_of_a_join_may_come_to_be_named_by_other_columns(
    name: str, consistency: str
) -> None:
    """The areas of the left go by v; when the left has ended, groups of the right by k and v."""
    columns = {"k": "int64", "v": "int64"}
    left = tw.source("left", columns, group_ctis="v", insert_only=True)
    right = tw.source("right", columns, group_ctis=("k", "v"), insert_only=True)
    alone = {"k": tw.col("k"), "v": tw.col("v")}
    pairs = {"k": tw.col("l.k"), "v": tw.col("l.v")}
    joined = left.join(
        right, ["k", "v"], how="full", select=pairs, left_only=alone, right_only=alone
    )
    query = BEHIND_TWO_INPUTS[name](joined)
    rows = [insert({"k": k, "v": v}, 3, 9) for k in (1, 2) for v in (1, 2)]
    engine = tw.Engine(query, consistency=consistency)
    out = engine.push("left", rows)
    out += engine.punctuate("left", punctuation(ts=before(2), v=within(1, 3)))
    out += engine.push("left", cti(None, {"v": 1}))
    out += engine.push("right", [cti(16), cti(26, {"k": 1, "v": 1})])
    out += engine.push("left", cti(None)) + engine.finish()
    assert first_violation_in_batches(out) is None
    assert tw.cht(list(tw.elements_of(out))) == tw.table(query, {"left": rows, "right": []})


@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
def test_a_common_promise_behind_renamed_columns_leaves_the_groups_that_have_ended(
    consistency: str,
) -> None:
    """Rows of a group that the left has ended are forgotten; they may still change on the right."""
    columns = {"k": "int64", "v": "int64"}
    left = tw.source("left", columns, group_ctis="k", insert_only=True)
    right = tw.source("right", columns, insert_only=True)
    query = left.rename(k="key").join(right.edges("k"), {"key": "k"}, endless="right")
    rows = [insert({"k": 1, "v": 0}, 1, 10), insert({"k": 1, "v": 1}, 22, 24)]
    engine = tw.Engine(query, consistency=consistency)
    out = engine.push("right", rows[0])
    for promise in (cti(1, {"k": 2}), cti(None, {"k": 1}), cti(12)):
        out += engine.push("left", promise)
    out += engine.push("right", rows[1]) + engine.finish()
    assert first_violation_in_batches(out) is None
    assert tw.cht(list(tw.elements_of(out))) == []
