"""The fuzzer can fail: engines that are wrong in one way each are caught, and the form that shows
it is tiny."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from thalweg.expr import col
from thalweg.model import (
    INFINITY,
    Adjust,
    Batch,
    Cti,
    Element,
    Insert,
    Row,
    adjust,
    batches_of,
    cti,
    elements_of,
    insert,
    remove,
)
from thalweg.plan.aggregates import count
from thalweg.plan.nodes import Node, Shift, Source, Union, Where, WindowAggregate
from thalweg.testing import (
    RESTART,
    Form,
    ReferenceEngine,
    Step,
    assert_form_right,
    assert_physically_independent,
    oracle,
    step,
)
from thalweg.testing.runners import EngineType
from thalweg.windows import HoppingWindow

SCHEMA = pa.schema([("v", pa.int64())])
A, B = Source("a", SCHEMA), Source("b", SCHEMA)
COUNTS = WindowAggregate(A, HoppingWindow(10, 10), (("n", count()),))
TABLE: list[Row] = [(start, start + 4, {"v": start % 3}) for start in (1, 3, 3, 8, 12, 15, 21)]
PYTHON = {
    "Form": Form,
    "step": step,
    "RESTART": RESTART,
    "insert": insert,
    "adjust": adjust,
    "remove": remove,
    "cti": cti,
}


class DropsLateRows(ReferenceEngine):
    """An insert that starts before an earlier one is lost."""

    def push(self, source_name: str, batch: Batch) -> list[Batch]:
        for element in elements_of([batch]):
            newest = max(
                (one.start for one in self.seen[source_name] if isinstance(one, Insert)),
                default=element_start(element),
            )
            if element_start(element) >= newest:
                self.seen[source_name].append(element)
        return []


class DependsOnCuts(ReferenceEngine):
    """The last row of a batch of three or more is lost."""

    def push(self, source_name: str, batch: Batch) -> list[Batch]:
        kept = list(elements_of([batch]))
        self.seen[source_name] += (
            kept[:-1] if len(batch) >= 3 and all(isinstance(one, Insert) for one in kept) else kept
        )
        return []


class SpeaksAfterItsPromise(ReferenceEngine):
    """CTIs leave at once, rows only at the end."""

    def push(self, source_name: str, batch: Batch) -> list[Batch]:
        super().push(source_name, batch)
        return [Batch.empty(self.query.schema, batch.progress)]


class ForgetsOnRestart(ReferenceEngine):
    """A snapshot holds nothing."""

    def snapshot(self) -> bytes:
        self.seen = {name: [] for name in self.seen}
        return super().snapshot()


class IgnoresRemovals(ReferenceEngine):
    """Rows that are removed stay."""

    def push(self, source_name: str, batch: Batch) -> list[Batch]:
        self.seen[source_name] += [
            one
            for one in elements_of([batch])
            if not (isinstance(one, Adjust) and one.new_end == one.start)
        ]
        return []


class LosesLongerEnds(ReferenceEngine):
    """An adjust to a later end is refused."""

    def push(self, source_name: str, batch: Batch) -> list[Batch]:
        if any(isinstance(one, Adjust) and one.new_end > one.end for one in elements_of([batch])):
            raise RuntimeError("an end may only shrink")
        return super().push(source_name, batch)


class ConfusesSources(ReferenceEngine):
    """The second source is lost when the first has ended before it speaks."""

    def push(self, source_name: str, batch: Batch) -> list[Batch]:
        if source_name == "b" and Cti(INFINITY) in self.seen["a"]:
            return []
        return super().push(source_name, batch)


class AnswersInTwoSteps(ReferenceEngine):
    """Every row comes with another end first."""

    def answer(self, rows: list[Row]) -> list[Batch]:  # type: ignore[override]
        elements: list[Element] = []
        for start, end, payload in rows:
            elements += [Insert(payload, start, end + 1), Adjust(payload, start, end + 1, end)]
        return list(batches_of([*elements, Cti(INFINITY)], self.query.schema))


class AdjustsStrangers(ReferenceEngine):
    """It adjusts rows that it never gave."""

    def answer(self, rows: list[Row]) -> list[Batch]:  # type: ignore[override]
        elements: list[Element] = [
            Adjust(payload, start, end + 1, end) for start, end, payload in rows
        ]
        return list(batches_of([*elements, Cti(INFINITY)], self.query.schema))


class NeverEnds(ReferenceEngine):
    """There is no CTI at the end."""

    def answer(self, rows: list[Row]) -> list[Batch]:  # type: ignore[override]
        return list(
            batches_of(
                [Insert(payload, start, end) for start, end, payload in rows], self.query.schema
            )
        )


class GivesOtherColumns(ReferenceEngine):
    """Numbers come as text."""

    def answer(self, rows: list[Row]) -> list[Batch]:  # type: ignore[override]
        schema = pa.schema([(name, pa.string()) for name in self.query.schema.names])
        return list(batches_of([Cti(INFINITY)], schema))


def element_start(element: Element) -> int:
    return INFINITY if isinstance(element, Cti) else element.start


def caught(
    query: Node, inputs: dict[str, list[Row]], engine: EngineType, **options: Any
) -> tuple[str, Form]:
    """The message of the failure that must come, and the form in it."""
    with pytest.raises(AssertionError) as failure:
        assert_physically_independent(query, inputs, engine=engine, **options)
    message = str(failure.value)
    text = message[message.index("form = ") + len("form = ") : message.index("\nexpected:")]
    return message, eval(text, dict(PYTHON))


def kinds(form: Form) -> list[str]:
    return [
        type(element).__name__
        for part in form.steps
        if isinstance(part, Step)
        for element in part.elements
    ]


def test_the_reference_engine_passes() -> None:
    assert_physically_independent(COUNTS, {"a": TABLE}, forms=30, engine=ReferenceEngine)
    assert_physically_independent(
        Union(A, Shift(B, 3)), {"a": TABLE, "b": TABLE}, forms=30, engine=ReferenceEngine
    )


@pytest.mark.parametrize("query", [COUNTS, Where(A, col("v") >= 0)], ids=["counts", "where"])
def test_dropped_late_rows_are_caught(query: Node) -> None:
    _, form = caught(query, {"a": TABLE}, DropsLateRows)
    assert kinds(form) == ["Insert", "Insert"]


def test_dependence_on_cuts_is_caught() -> None:
    _, form = caught(COUNTS, {"a": TABLE}, DependsOnCuts)
    assert kinds(form) == ["Insert"] * 3 and len(form.steps) == 1


def test_a_broken_promise_is_caught() -> None:
    message, form = caught(A, {"a": TABLE}, SpeaksAfterItsPromise)
    assert sorted(kinds(form)) == ["Cti", "Insert"]
    assert "the output breaks its own promise" in message


def test_a_lost_snapshot_is_caught() -> None:
    message, form = caught(COUNTS, {"a": TABLE}, ForgetsOnRestart)
    assert kinds(form) == ["Insert"] and len(form.steps) == 2 and form.steps[1] is RESTART
    assert "missing rows" in message


def test_a_spurious_row_that_stays_is_caught() -> None:
    message, form = caught(COUNTS, {"a": TABLE}, IgnoresRemovals)
    assert kinds(form) == ["Insert", "Adjust"]
    assert "surplus rows" in message and "expected:\n  (empty)" in message


def test_an_engine_that_raises_is_caught() -> None:
    message, form = caught(A, {"a": TABLE}, LosesLongerEnds)
    assert kinds(form) == ["Insert", "Adjust"]
    assert "the engine raised RuntimeError: an end may only shrink" in message
    assert "in push, line" in message


def test_a_dependence_on_the_order_of_sources_is_caught() -> None:
    _, form = caught(Union(A, B), {"a": TABLE, "b": TABLE}, ConfusesSources)
    assert sorted(kinds(form)) == ["Cti", "Insert"] and len(form.steps) == 2


def test_final_means_no_adjusts() -> None:
    message, form = caught(A, {"a": TABLE}, AnswersInTwoSteps)
    assert kinds(form) == ["Insert"]
    assert 'consistency "final"' in message
    assert_physically_independent(
        A, {"a": TABLE}, engine=AnswersInTwoSteps, consistency=("speculative", "eager"), forms=5
    )


def test_adjusts_of_unknown_rows_are_caught() -> None:
    message, _ = caught(A, {"a": TABLE}, AdjustsStrangers, consistency="speculative")
    assert "the output cannot be played" in message and "(no table: " in message


def test_an_output_without_an_end_is_caught() -> None:
    message, form = caught(A, {"a": TABLE}, NeverEnds)
    assert "the input has ended, but the output only promises" in message
    assert len(form) == 0


def test_other_columns_are_caught() -> None:
    message, _ = caught(A, {"a": TABLE}, GivesOtherColumns)
    assert "has the columns (v string); the query has (v int64)" in message


def test_given_an_expected_table_the_input_is_left_whole() -> None:
    expected = oracle(COUNTS, {"a": TABLE})
    assert_physically_independent(
        COUNTS, {"a": TABLE}, expected=expected, engine=ReferenceEngine, forms=5
    )
    _, form = caught(COUNTS, {"a": TABLE}, ForgetsOnRestart, expected=expected)
    assert (
        kinds(form) == ["Insert"] * len(TABLE)
        and len([part for part in form.steps if part is RESTART]) == 1
    )
    message, _ = caught(COUNTS, {"a": TABLE}, ReferenceEngine, expected=expected[1:], forms=1)
    assert "surplus rows" in message


def test_the_message_can_be_pasted() -> None:
    message, form = caught(COUNTS, {"a": TABLE}, DropsLateRows)
    assert (
        "WindowAggregate(window=HoppingWindow(size=10, hop=10, offset=0), aggregates=((n, count()))"
        in message.replace("'", "")
    )
    assert "input: Source(name='a', columns=(v int64))" in message
    with pytest.raises(AssertionError, match="the form given"):
        assert_form_right(COUNTS, form, engine=DropsLateRows)
    assert_form_right(COUNTS, form, engine=ReferenceEngine)


def test_any_way_of_running_can_be_plugged_in() -> None:
    seen: list[str] = []

    def runner(query: Node, form: Form, consistency: str) -> list[Batch]:
        seen.append(consistency)
        engine = ReferenceEngine(query)
        for name in form.sources:
            for batch in batches_of(form.elements(name), SCHEMA):
                engine.push(name, batch)
        return engine.finish()

    assert_physically_independent(COUNTS, {"a": TABLE}, runner=runner, forms=3)
    assert seen == ["speculative", "eager", "final"] * 3


def test_sequences_of_elements_are_inputs_too() -> None:
    row = {"v": 1}
    sequence: list[Element] = [
        insert(row, 1),
        cti(3),
        adjust(row, 1, None, 7),
        insert({"v": 2}, 5, 6),
        remove({"v": 2}, 5, 6),
        cti(7),
    ]
    assert_physically_independent(
        A, {"a": sequence}, engine=ReferenceEngine, expected=[(1, 7, row)]
    )


@pytest.mark.parametrize(
    "build", [lambda: COUNTS, lambda: Union(A, B)], ids=["one source", "two sources"]
)
def test_empty_inputs_are_inputs(build: Callable[[], Node]) -> None:
    assert_physically_independent(build(), {}, engine=ReferenceEngine, forms=10)
