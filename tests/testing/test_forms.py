"""Every form is legal, says the same as its input, and can be rebuilt from what it prints."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.model import (
    INFINITY,
    Adjust,
    Cti,
    Element,
    Insert,
    Row,
    adjust,
    cht,
    cti,
    first_violation,
    insert,
    remove,
)
from thalweg.plan.nodes import Source, Union
from thalweg.testing import (
    RESTART,
    Form,
    Manner,
    Step,
    difference,
    forms_of,
    illegality,
    logical_inputs,
    make_form,
    step,
)
from thalweg.testing.chains import chains_of
from thalweg.testing.strategies import KEYED, element_sequences, manners, rows

A, B = Source("a", KEYED), Source("b", KEYED)
QUERY = Union(A, B)
TABLE: list[Row] = [(start, start + 5, {"k": start % 2, "v": start}) for start in range(8)]
PYTHON = {
    "Form": Form,
    "step": step,
    "RESTART": RESTART,
    "insert": insert,
    "adjust": adjust,
    "remove": remove,
    "cti": cti,
}


def adjusts(form: Form) -> list[Adjust]:
    return [
        element
        for name in form.sources
        for element in form.elements(name)
        if isinstance(element, Adjust)
    ]


def promises(form: Form) -> list[Cti]:
    return [
        element
        for name in form.sources
        for element in form.elements(name)
        if isinstance(element, Cti)
    ]


@given(rows(infinite=True, nulls=("k", "v")), rows(infinite=True), st.integers())
def test_forms_of_tables_are_legal_and_equivalent(
    one: list[Row], two: list[Row], seed: int
) -> None:
    logicals = logical_inputs(QUERY, {"a": one, "b": two})
    for form in forms_of(logicals, 6, seed):
        for name, table in (("a", one), ("b", two)):
            assert first_violation(form.elements(name)) is None
            assert difference(table, cht(form.elements(name), KEYED)) is None


@given(element_sequences(infinite=True), manners(), st.integers())
def test_forms_of_sequences_are_legal_and_equivalent(
    sequence: list[Element], manner: Manner, seed: int
) -> None:
    assert first_violation(sequence) is None
    form = make_form(logical_inputs(A, {"a": sequence}), manner, Random(seed))
    assert first_violation(form.elements("a")) is None
    assert difference(cht(sequence, KEYED), cht(form.elements("a"), KEYED)) is None


@given(rows(nulls=("k",)), st.integers())
def test_scoped_promises_are_kept_and_added(table: list[Row], seed: int) -> None:
    sequence: list[Element] = [insert(payload, start, end) for start, end, payload in table]
    sequence += [cti(9, {"k": 5}), cti(30, {"k": None}), cti(None, {"k": 1})]
    for form in forms_of(logical_inputs(A, {"a": sequence}), 6, seed):
        assert {
            frozenset(promise.scope) for promise in promises(form) if promise.scope is not None
        } <= {frozenset({"k"})}


@given(rows(infinite=True), st.integers())
@settings(max_examples=30)
def test_a_form_prints_itself_as_python(table: list[Row], seed: int) -> None:
    for form in forms_of(logical_inputs(A, {"a": table}), 4, seed):
        assert eval(repr(form), dict(PYTHON)).steps == list(form.steps)


def test_the_same_seed_makes_the_same_forms() -> None:
    logicals = logical_inputs(QUERY, {"a": TABLE, "b": TABLE})
    assert list(forms_of(logicals, 20, seed=5)) == list(forms_of(logicals, 20, seed=5))
    assert list(forms_of(logicals, 20, seed=5)) != list(forms_of(logicals, 20, seed=6))


def test_the_forms_differ_in_every_way() -> None:
    made = list(forms_of(logical_inputs(QUERY, {"a": TABLE, "b": TABLE[:4]}), 60))
    assert len({repr(form) for form in made}) == 60
    assert any(RESTART in form.steps for form in made)
    assert any(adjust_.end == INFINITY for form in made for adjust_ in adjusts(form))
    assert any(adjust_.new_end == adjust_.start for form in made for adjust_ in adjusts(form))
    assert any(adjust_.new_end > adjust_.end for form in made for adjust_ in adjusts(form))
    assert any(
        adjust_.start < adjust_.new_end < adjust_.end < INFINITY
        for form in made
        for adjust_ in adjusts(form)
    )
    starts = [
        [element.start for element in form.elements("a") if isinstance(element, Insert)]
        for form in made
    ]
    assert any(one == sorted(one) for one in starts) and any(one != sorted(one) for one in starts)
    assert {len(form.steps) for form in made} >= {2} and max(len(form.steps) for form in made) > 20
    turns = [[part.source for part in form.steps if isinstance(part, Step)] for form in made]
    assert any(one == sorted(one) for one in turns) and any(
        sorted(one) not in (one, one[::-1]) for one in turns
    )
    assert any(not promises(form) for form in made)
    assert any(promise.time == INFINITY for form in made for promise in promises(form))
    assert any(0 < promise.time < INFINITY for form in made for promise in promises(form))


def test_ordered_forms_promise_as_much_as_they_may() -> None:
    form = list(forms_of(logical_inputs(A, {"a": TABLE}), 2))[1]
    assert [promise.time for promise in promises(form)] == [*range(8), INFINITY]


def test_promises_of_the_input_are_kept_where_they_are_legal() -> None:
    sequence: list[Element] = [
        insert({"k": 1, "v": 1}, 3, 5),
        cti(4),
        insert({"k": 1, "v": 2}, 4, 9),
        cti(9),
    ]
    logicals = logical_inputs(A, {"a": sequence})
    for disorder in (0, 2, float("inf")):
        for seed in range(20):
            elements = make_form(logicals, Manner(disorder=disorder), Random(seed)).elements("a")
            assert cti(9) in elements
            assert first_violation(elements) is None


def test_illegal_forms_are_told_apart() -> None:
    logicals = logical_inputs(A, {"a": TABLE[:1]})
    payload = TABLE[0][2]
    good = Form(
        [step("a", insert(payload, 0, 9)), RESTART, step("a", adjust(payload, 0, 9, 5), cti(5))]
    )
    assert illegality(good, logicals) is None
    for bad, reason in [
        (Form([step("a", insert(payload, 0, 9))]), "says something else"),
        (
            Form([step("a", cti(1)), step("a", insert(payload, 0, 5))]),
            "changes time before the CTI 1",
        ),
        (Form([step("a", adjust(payload, 0, 9, 5))]), "not in the table"),
        (Form([step("z", insert(payload, 0, 5))]), "no query reads the source 'z'"),
        (Form([]), "missing rows"),
    ]:
        assert reason in str(illegality(bad, logicals))


def test_input_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="there is input for 'z'; the query reads"):
        logical_inputs(A, {"z": []})
    with pytest.raises(ValueError, match="breaks its own promise"):
        logical_inputs(A, {"a": [cti(5), insert({"k": 1, "v": 1}, 4, 9)]})
    with pytest.raises(ValueError, match="adjusts a row that is not there"):
        logical_inputs(A, {"a": [adjust({"k": 1, "v": 1}, 4, 9, 6)]})
    with pytest.raises(ValueError, match="mixes rows and elements"):
        logical_inputs(A, {"a": [insert({"k": 1, "v": 1}, 4, 9), (1, 2, {"k": 1, "v": 1})]})


def test_a_column_left_out_is_null() -> None:
    for form in forms_of(logical_inputs(A, {"a": [(1, 2, {"k": 1}), (1, 2, {})]}), 10):
        assert (
            difference(
                [(1, 2, {"k": 1, "v": None}), (1, 2, {"k": None, "v": None})],
                cht(form.elements("a"), KEYED),
            )
            is None
        )


def test_chains_keep_duplicates_apart() -> None:
    row = {"v": 1}
    elements: list[Element] = [
        insert(row, 1, 5),
        insert(row, 1, 5),
        adjust(row, 1, 5, 9),
        remove(row, 1, 5),
        adjust(row, 1, 9, 7),
    ]
    assert [(chain.ends, chain.row) for chain in chains_of(elements)] == [
        ((5, 9, 7), (1, 7, row)),
        ((5, 1), None),
    ]


def test_a_source_of_any_types_has_forms() -> None:
    schema = pa.schema(
        [("t", pa.string()), ("f", pa.float64()), ("b", pa.bool_()), ("l", pa.list_(pa.int64()))]
    )
    source = Source("s", schema)
    table: list[Row] = [
        (1, 4, {"t": "x", "f": float("nan"), "b": None, "l": [1, 2]}),
        (1, 4, {"t": None, "f": -0.0, "b": True, "l": None}),
    ]
    assert len(list(forms_of(logical_inputs(source, {"s": table}), 20))) == 20
    assert len(list(forms_of(logical_inputs(source, {}), 20))) == 20
