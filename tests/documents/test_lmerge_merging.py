"""Sections II to V of "Physically Independent Stream Merging" (LMerge): its examples, merged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from thalweg.merging import Merger
from thalweg.model import INFINITY, Element, adjust, cti, elements_of, first_violation, insert
from thalweg.operators.merging.chains import ABSENT
from thalweg.operators.merging.counted import CountedLevel
from thalweg.operators.merging.kernel import MergeKernel
from thalweg.operators.merging.keyed import KeyedLevel
from thalweg.plan.merging import Level, MergePolicy
from thalweg.testing import (
    Prefix,
    compatibility_problem,
    incompatibility,
    open_close_problem,
    prefix_of,
)

SCHEMA = pa.schema([("p", pa.string())])
A, B, C, D, E = ({"p": name} for name in "ABCDE")

Step = tuple[str, Element]


def merge(steps: list[Step], policy: MergePolicy, level: Level) -> list[Element]:
    merger = Merger(SCHEMA, level=level, policy=policy)
    for name in sorted({name for name, _ in steps}):
        merger.attach(name)
    return list(elements_of([out for name, element in steps for out in merger.push(name, element)]))


# ------------------------------------------------------------------------------------------------
# Table III

IN1_AND_IN2: list[Step] = [
    ("In1", insert(A, 6, 10)),
    ("In2", insert(A, 6, 12)),
    ("In2", insert(B, 7, 14)),
    ("In1", adjust(A, 6, 10, 15)),
    ("In2", adjust(A, 6, 12, 15)),
    ("In2", cti(16)),
]
OUT1 = [insert(A, 6, 10), adjust(A, 6, 10, 12), insert(B, 7, 14), adjust(A, 6, 12, 15), cti(16)]
OUT2 = [insert(A, 6, 15), insert(B, 7, 14), cti(16)]
OUT3 = [insert(A, 6, 10), insert(B, 7, 14), adjust(A, 6, 10, 15), cti(16)]


@pytest.mark.parametrize("level", ["R3", "R4"])
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (MergePolicy(revise="every"), OUT1),
        (MergePolicy(insert="half frozen"), OUT2),
        (MergePolicy(), OUT3),
    ],
    ids=["Out1", "Out2", "Out3"],
)
def test_table_iii_element_by_element(
    policy: MergePolicy, expected: list[Element], level: Level
) -> None:
    assert merge(IN1_AND_IN2, policy, level) == expected


# ------------------------------------------------------------------------------------------------
# section II: the punctuation challenge

TABLE_II: list[Step] = [
    ("Phy2", insert(A, 6, 7)),
    ("Phy2", insert(B, 8, 15)),
    ("Phy1", insert(B, 8)),
    ("Phy1", insert(A, 6, 12)),
    ("Phy1", adjust(B, 8, None, 10)),
    ("Phy1", cti(11)),
    ("Phy2", adjust(A, 6, 7, 12)),
    ("Phy2", adjust(B, 8, 15, 10)),
    ("Phy1", cti(None)),
]


@pytest.mark.parametrize("level", ["R3", "R4"])
def test_a_stable_does_not_pass_before_what_it_would_freeze_is_right(level: Level) -> None:
    out = merge(TABLE_II, MergePolicy(), level)
    assert out == [
        insert(A, 6, 7),
        insert(B, 8, 15),
        adjust(A, 6, 7, 12),
        adjust(B, 8, 15, 10),
        cti(11),
        cti(None),
    ]
    assert first_violation(out) is None


# ------------------------------------------------------------------------------------------------
# section III: what an output may be

I1 = Prefix([(2, 16, A), (3, 10, B), (4, 18, C), (15, 20, D)], 14)
I2 = Prefix([(2, 12, A), (3, 10, B), (4, 18, C), (17, 21, E)], 11)
O1 = Prefix([(2, INFINITY, A), (3, 10, B), (4, INFINITY, C)], 11)
O2 = Prefix([(2, 16, A), (3, 10, B), (4, 18, C), (15, 20, D), (17, 21, E)], 14)
O3 = Prefix([(2, 12, A), (4, 18, C)], 13)
INPUTS = {"I1": I1, "I2": I2}


def test_o1_and_o2_are_compatible_with_i1_and_i2() -> None:
    assert compatibility_problem(INPUTS, O1) is None
    assert compatibility_problem(INPUTS, O2) is None


def test_o3_is_refused_for_both_reasons() -> None:
    about_a, about_a_too, about_b = sorted(incompatibility(INPUTS, O3))
    assert about_a.startswith("C2: the output has {'p': 'A'} from 2 to 12 for ever")
    assert about_a_too.endswith(
        "{'p': 'A'} from 2 is half frozen in an input, and not in the output"
    )
    assert about_b.startswith("C3: {'p': 'B'} from 3 to 10 is final in an input")


def test_c1_an_output_may_not_promise_more_than_its_inputs() -> None:
    assert str(compatibility_problem(INPUTS, Prefix(I1.rows, 15))).startswith("C1")


def test_c2_a_half_frozen_row_needs_an_input_it_can_follow() -> None:
    stranger = Prefix([*O1.rows, (5, INFINITY, D)], 11)
    assert "C2: the output has {'p': 'D'} from 5 half frozen" in str(
        compatibility_problem(INPUTS, stranger)
    )
    assert compatibility_problem(INPUTS, Prefix([*O1.rows, (11, 30, D)], 11)) is None  # unfrozen


def test_c2_one_row_for_a_payload_and_start() -> None:
    assert "2 times" in str(compatibility_problem(INPUTS, Prefix([*O1.rows, (2, 14, A)], 11)))


def test_c3_a_half_frozen_row_must_be_there() -> None:
    assert "C3: {'p': 'C'} from 4" in str(compatibility_problem(INPUTS, Prefix(O1.rows[:2], 11)))
    assert compatibility_problem(INPUTS, Prefix([], 2)) is None


def test_r4_as_many_half_frozen_rows_and_the_same_final_ones() -> None:
    leader = prefix_of([insert(A, 1, 5), insert(A, 1, 5), insert(A, 1, 30), cti(10)])
    fine = prefix_of([insert(A, 1, 5), insert(A, 1, 5), insert(A, 1, 99), cti(10)])
    few = prefix_of([insert(A, 1, 5), insert(A, 1, 5), cti(10)])
    other = prefix_of([insert(A, 1, 5), insert(A, 1, 6), insert(A, 1, 99), cti(10)])
    problems = [
        compatibility_problem({"leader": leader}, output, multiset=True)
        for output in (fine, few, other)
    ]
    assert problems[0] is None
    assert "is there 2 times, in the input that leads 3 times" in str(problems[1])
    assert "final ends [5, 6]" in str(problems[2])


def test_example_5_open_and_close_elements_must_be_in_some_input() -> None:
    inputs = [[("open", "A", 1), ("close", "A", 4)], [("open", "A", 1), ("open", "B", 2)]]
    assert open_close_problem(inputs, [("open", "A", 1), ("open", "B", 2)]) is None
    assert open_close_problem(inputs, [("open", "C", 3)]) is not None
    assert open_close_problem(inputs, [("open", "B", 2), ("close", "B", 5)]) is not None


# ------------------------------------------------------------------------------------------------
# Figure 1: the structures

PREFIX: list[tuple[int, Element]] = [
    (0, insert(A, 6, 10)),
    (1, insert(A, 6, 12)),
    (1, insert(B, 7, 14)),
    (0, adjust(A, 6, 10, 15)),
]


def indexed(level: Level, prefix: list[tuple[int, Element]]) -> MergeKernel:
    merger = Merger(SCHEMA, level=level)
    merger.attach("In1")
    merger.attach("In2")
    for port, element in prefix:
        merger.push(f"In{port + 1}", element)
    return merger._kernel


def test_figure_1_two_tiers() -> None:
    level = indexed("R3", PREFIX).level
    assert isinstance(level, KeyedLevel)
    slots = level.top.table.used()
    nodes = {
        (payload["p"], int(level.top.start[slot])): (
            {at: int(end) for at, end in enumerate(level.ends.inputs[:, slot]) if end != ABSENT},
            int(level.ends.out[slot]),
        )
        for slot, payload in zip(slots, level.top.payloads.take(slots).to_pylist(), strict=True)
    }
    assert nodes == {("A", 6): ({0: 15, 1: 12}, 10), ("B", 7): ({1: 14}, 14)}


def test_figure_1_three_tiers() -> None:
    level = indexed("R4", [*PREFIX, (1, insert(A, 6, 12)), (1, adjust(A, 6, 12, 13))]).level
    assert isinstance(level, CountedLevel)
    slots = level.top.table.used()
    assert level.top.payloads.take(slots).to_pydict() == {"p": ["A", "B"]}
    tiers = [*level.counts, level.out]
    found = [
        sorted(zip(*(part.tolist() for part in counts.of(slots)), strict=True)) for counts in tiers
    ]
    # (node, end, count) for In1, In2 and the output; the second A of In2 came out, its adjust did
    # not
    assert found == [
        [(0, 15, 1)],
        [(0, 12, 1), (0, 13, 1), (1, 14, 1)],
        [(0, 10, 1), (0, 12, 1), (1, 14, 1)],
    ]
