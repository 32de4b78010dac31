"""Section II of "Physically Independent Stream Merging" (LMerge): what a stream means, table by
table.

The document's words: a TDB is our table, `tdb(S, i)` is `cht` of a prefix, `stable` is `cti`. The
merging of these streams is in `test_lmerge_merging`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import pytest

import thalweg as tw
from thalweg.model import (
    INFINITY,
    Adjust,
    Element,
    Insert,
    Row,
    adjust,
    cht,
    cti,
    equivalent,
    first_violation,
    insert,
)

A, B, C, D, E = ({"p": name} for name in "ABCDE")


def tdb(stream: Sequence[Element], upto: int | None = None) -> list[tuple[str, int, int]]:
    """The document's reconstitution function, in its notation: (payload, Vs, Ve)."""
    return [(payload["p"], start, end) for start, end, payload in cht(stream[:upto])]


# ----------------------------------------------------------------------------------------------
# Table I: DHCP leases

LEASES = [("A", 6, 12), ("B", 8, 10)]
Call = tuple[str, str, int, int]


def tracked(calls: Sequence[Call]) -> Iterator[Element]:
    """alloc(user, start, end) and modify(user, start, new end); a modify does not say the old end,
    so it is remembered."""
    ends: dict[tuple[str, int], int] = {}
    for what, user, start, end in calls:
        old = ends.get((user, start))
        yield (
            insert({"p": user}, start, end)
            if what == "alloc" or old is None
            else adjust({"p": user}, start, old, end)
        )
        ends[user, start] = end


LEASES_1: list[Call] = [("alloc", "B", 8, INFINITY), ("alloc", "A", 6, 12), ("modify", "B", 8, 10)]
LEASES_2: list[Call] = [
    ("alloc", "A", 6, 7),
    ("alloc", "B", 8, 15),
    ("modify", "A", 6, 12),
    ("modify", "B", 8, 10),
]


@pytest.mark.parametrize("calls", [LEASES_1, LEASES_2], ids=["Phy1", "Phy2"])
def test_table_i_each_stream_reports_the_effective_leases(calls: list[Call]) -> None:
    assert tdb(list(tracked(calls))) == LEASES


# ------------------------------------------------------------------------------------------ Table
# II: the same streams

PHY1: list[Element] = [insert(B, 8), insert(A, 6, 12), adjust(B, 8, None, 10), cti(11), cti(None)]
PHY2: list[Element] = [
    insert(A, 6, 7),
    insert(B, 8, 15),
    adjust(A, 6, 7, 12),
    adjust(B, 8, 15, 10),
    cti(None),
]


def test_table_ii_is_table_i_with_adjusts_and_promises() -> None:
    assert list(tracked(LEASES_1)) == PHY1[:3]
    assert list(tracked(LEASES_2)) == PHY2[:4]


def test_table_ii_both_streams_reconstitute_to_the_same_table() -> None:
    assert tdb(PHY1) == tdb(PHY2) == LEASES
    assert equivalent(PHY1, PHY2)


def test_table_ii_both_streams_keep_their_promises() -> None:
    assert first_violation(PHY1) is None and first_violation(PHY2) is None


def test_table_ii_prefixes_differ_on_the_way() -> None:
    assert [tdb(PHY2, i) for i in range(1, 5)] == [
        [("A", 6, 7)],
        [("A", 6, 7), ("B", 8, 15)],
        [("A", 6, 12), ("B", 8, 15)],
        LEASES,
    ]
    assert not equivalent(PHY1[:1], PHY2[:1])


def test_table_ii_any_query_gives_both_streams_one_answer() -> None:
    leases = tw.source("s", {"p": "string"})
    queries = [
        leases,
        leases.snapshot().aggregate(n=tw.count()),
        leases.hopping(4, 2).aggregate(n=tw.count()),
        leases.edges(),
    ]
    for query in queries:
        one, two = (tw.table(query, {"s": stream}) for stream in (PHY1, PHY2))
        assert one == two and one


def test_table_ii_a_set_union_of_the_two_streams_is_not_their_merge() -> None:
    # The document's point: a lease in two physical forms is no duplicate that could be eliminated;
    # it is counted twice.
    once = {repr(element): element for element in [*PHY1[:3], *PHY2[:4]]}
    assert tdb(list(once.values())) == sorted([*LEASES, *LEASES])


# ---------------------------------------------------------------------------------------------
# Examples 2 and 3

OPEN_CLOSE = [("A", 1, 4), ("B", 2, 5), ("C", 3, INFINITY)]


def opened(calls: Sequence[tuple[str, str, int]]) -> list[Element]:
    """open(p, Vs) and close(p, Ve) as elements: an open row has no end yet, a second close revises
    the first."""
    now: dict[str, tuple[int, int]] = {}
    made: list[Element] = []
    for what, p, time in calls:
        start, old = (time, INFINITY) if what == "open" else now[p]
        made.append(
            insert({"p": p}, time) if what == "open" else adjust({"p": p}, start, old, time)
        )
        now[p] = (start, INFINITY if what == "open" else time)
    return made


@pytest.mark.parametrize(
    "calls",
    [
        [
            ("open", "A", 1),
            ("open", "B", 2),
            ("open", "C", 3),
            ("close", "A", 4),
            ("close", "B", 5),
        ],
        [
            ("open", "A", 1),
            ("close", "A", 4),
            ("open", "B", 2),
            ("close", "B", 5),
            ("open", "C", 3),
        ],
        [
            ("open", "B", 2),
            ("close", "B", 6),
            ("open", "A", 1),
            ("open", "C", 3),
            ("close", "A", 4),
            ("close", "B", 5),
        ],
    ],
    ids=["S[5]", "U[5]", "W[6]"],
)
def test_example_2_open_and_close_elements(calls: list[tuple[str, str, int]]) -> None:
    assert tdb(opened(calls)) == OPEN_CLOSE


def test_example_3_a_chain_of_adjusts_is_one_insert() -> None:
    assert equivalent(
        [insert(A, 6, 20), adjust(A, 6, 20, 30), adjust(A, 6, 30, 25)], [insert(A, 6, 25)]
    )


def test_example_3_an_adjust_to_the_start_removes_the_event() -> None:
    assert tdb([insert(A, 6, 20), insert(B, 7, 8), adjust(A, 6, 20, 6)]) == [("B", 7, 8)]


@pytest.mark.parametrize(
    "element",
    [insert(B, 9, 20), adjust(A, 6, 9, 12), adjust(A, 6, 12, 9)],
    ids=["Vs", "Vold", "Ve"],
)
def test_example_3_stable_forbids_each_time_before_it(element: Insert | Adjust) -> None:
    assert first_violation([cti(9), element]) is None
    broken = first_violation([cti(10), element])
    assert broken is not None and broken.promise == 10


def test_the_tdb_is_a_multiset() -> None:
    assert tdb([insert(A, 1, 4), insert(A, 1, 4), adjust(A, 1, 4, 3)]) == [("A", 1, 3), ("A", 1, 4)]


# ----------------------------------------------------------------------------------- the two
# challenges; Table III


def test_punctuation_a_stable_that_comes_too_early_freezes_what_is_still_to_change() -> None:
    # Output has followed the start of Phy2; the stable(11) of Phy1 may not pass it yet.
    followed: list[Element] = [insert(A, 6, 7), insert(B, 8, 15)]
    for correction in (adjust(A, 6, 7, 12), adjust(B, 8, 15, 10)):
        assert first_violation([*followed, cti(11), correction]) is not None
        assert first_violation([*followed, correction, cti(11)]) is None


IN1: list[Element] = [insert(A, 6, 10), adjust(A, 6, 10, 15)]
IN2: list[Element] = [insert(A, 6, 12), insert(B, 7, 14), adjust(A, 6, 12, 15), cti(16)]
OUT1: list[Element] = [
    insert(A, 6, 10),
    adjust(A, 6, 10, 12),
    insert(B, 7, 14),
    adjust(A, 6, 12, 15),
    cti(16),
]
OUT2: list[Element] = [insert(A, 6, 15), insert(B, 7, 14), cti(16)]
OUT3: list[Element] = [insert(A, 6, 10), insert(B, 7, 14), adjust(A, 6, 10, 15), cti(16)]


@pytest.mark.parametrize("stream", [IN2, OUT1, OUT2, OUT3], ids=["In2", "Out1", "Out2", "Out3"])
def test_table_iii_inputs_and_outputs_mean_the_same_and_are_sound(stream: list[Element]) -> None:
    assert tdb(stream) == [("A", 6, 15), ("B", 7, 14)]
    assert first_violation(stream) is None


def test_table_iii_in1_is_a_part_of_the_same_stream() -> None:
    assert tdb(IN1) == [("A", 6, 15)]
    assert equivalent([*IN1, insert(B, 7, 14), cti(16)], IN2)


@pytest.mark.parametrize(("consistency", "adjusts"), [("speculative", 2), ("final", 0)])
def test_table_iii_consistency_is_the_choice_between_out1_and_out2(
    consistency: str, adjusts: int
) -> None:
    out = tw.changes(tw.source("s", {"p": "string"}), {"s": OUT1}, consistency=consistency)
    assert sum(isinstance(e, Adjust) for e in out) == adjusts
    assert sorted(map(repr, out)) == sorted(map(repr, OUT1 if adjusts else OUT2))


# -------------------------------------------------------------------------------- III: what a
# stable freezes

I1: list[Row] = [(2, 16, A), (3, 10, B), (4, 18, C), (15, 20, D)]


@pytest.mark.parametrize(
    ("row", "new_end", "possible"),
    [
        ((3, 10, B), 12, False),
        ((2, 16, A), 20, True),
        ((2, 16, A), 13, False),
        ((2, 16, A), 2, False),
        ((15, 20, D), 15, True),
    ],
    ids=[
        "fully frozen",
        "half frozen, a later end",
        "half frozen, an earlier end",
        "half frozen, removed",
        "unfrozen, removed",
    ],
)
def test_stable_freezes_half_fully_or_not_at_all(row: Row, new_end: int, possible: bool) -> None:
    held: list[Element] = [insert(p, s, e) for s, e, p in I1]
    start, end, payload = row
    assert (
        first_violation([*held, cti(14), adjust(payload, start, end, new_end)]) is None
    ) is possible


def test_o1_and_o2_can_still_follow_i1_and_o3_cannot() -> None:
    o1: list[Element] = [insert(A, 2), insert(B, 3, 10), insert(C, 4), cti(11)]
    o2: list[Element] = [
        insert(A, 2, 16),
        insert(B, 3, 10),
        insert(C, 4, 18),
        insert(D, 15, 20),
        insert(E, 17, 21),
        cti(14),
    ]
    o3: list[Element] = [insert(A, 2, 12), insert(C, 4, 18), cti(13)]
    follow: list[tuple[list[Element], list[Element]]] = [
        (o1, [adjust(A, 2, None, 16), adjust(C, 4, None, 18), insert(D, 15, 20)]),
        (o2, [adjust(E, 17, 21, 17)]),
    ]
    for output, rest in follow:
        assert first_violation([*output, *rest]) is None
        assert cht([*output, *rest]) == I1
    assert first_violation([*o3, adjust(A, 2, 12, 16)]) is not None
    assert first_violation([*o3, insert(B, 3, 10)]) is not None


def test_every_order_that_keeps_each_insert_before_its_adjusts_means_the_same() -> None:
    chains: list[list[Element]] = [
        [insert(A, 6, 7), adjust(A, 6, 7, 12)],
        [insert(B, 8, 15), adjust(B, 8, 15, 10)],
    ]
    for turns in set(permutations([0, 0, 1, 1])):
        left = [iter(chain) for chain in chains]
        assert tdb([next(left[turn]) for turn in turns]) == LEASES
