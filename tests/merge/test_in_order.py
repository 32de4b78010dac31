"""`in_order` (Cleanse) and open and close elements: streams made fit for a merge."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import InputError, LifetimeError, UnknownRowError
from thalweg.merging import OpenClose
from thalweg.model import INFINITY, Element, Insert, elements_of
from thalweg.testing import REPLICA_SCHEMA, make_reference, make_replica

SCHEMA = pa.schema([("p", pa.string())])
Step = tuple[str, int, str]


def test_every_copy_of_a_stream_leaves_in_one_order() -> None:
    """Inserts only, by start, each when it is final; and the same sequence for every form."""
    for seed in range(20):
        random = Random(seed)
        rows = make_reference("R4", 14, random)
        sequences = []
        for form in range(3):
            engine = tw.Engine(tw.source("s", REPLICA_SCHEMA).in_order())
            elements = make_replica("R4", rows, random)
            size = 1 + 4 * form
            out: list[Element] = []
            for at in range(0, len(elements), size):
                out += elements_of(engine.push("s", elements[at : at + size]))
                if form == 1:
                    engine = tw.Engine.restore(engine.query, engine.snapshot())
            inserts = [element for element in out if isinstance(element, Insert)]
            assert len(inserts) == len([e for e in out if not isinstance(e, tw.Cti)]) == len(rows)
            assert [e.start for e in inserts] == sorted(e.start for e in inserts)
            sequences.append(inserts)
        assert sequences[0] == sequences[1] == sequences[2]


def test_a_row_leaves_when_no_earlier_one_can_change() -> None:
    engine = tw.Engine(tw.source("s", {"v": "int64"}).in_order())
    early, late = tw.insert({"v": 1}, 0, 20), tw.insert({"v": 2}, 4, 9)
    assert list(elements_of(engine.push("s", [late, early, tw.cti(10)]))) == [tw.cti(0)]
    out = list(elements_of(engine.push("s", [tw.adjust({"v": 1}, 0, 20, 12), tw.cti(13)])))
    assert out == [tw.insert({"v": 1}, 0, 12), late, tw.cti(13)]


# ------------------------------------------------------------------------------------------------
# open and close


def elements(stream: OpenClose, *steps: Step, cti: int | None = None) -> list[Element]:
    names = ("_kind", "_time", "p")
    table = pa.table({name: [step[at] for step in steps] for at, name in enumerate(names)})
    return list(elements_of([stream.batch(table, cti)]))


S: list[Step] = [
    ("open", 1, "A"),
    ("open", 2, "B"),
    ("open", 3, "C"),
    ("close", 4, "A"),
    ("close", 5, "B"),
]
U: list[Step] = [
    ("open", 1, "A"),
    ("close", 4, "A"),
    ("open", 2, "B"),
    ("close", 5, "B"),
    ("open", 3, "C"),
]
W: list[Step] = [
    ("open", 2, "B"),
    ("close", 6, "B"),
    ("open", 1, "A"),
    ("open", 3, "C"),
    ("close", 4, "A"),
    ("close", 5, "B"),
]
TABLE = [(1, 4, {"p": "A"}), (2, 5, {"p": "B"}), (3, INFINITY, {"p": "C"})]


@pytest.mark.parametrize("size", [1, 2, 6])
@pytest.mark.parametrize("form", [S, U, W], ids="SUW")
def test_example_2_every_form_has_one_table(form: list[Step], size: int) -> None:
    stream = OpenClose(SCHEMA)
    out = [e for at in range(0, len(form), size) for e in elements(stream, *form[at : at + size])]
    assert tw.cht(out) == TABLE


def test_example_2_the_forms_are_merged() -> None:
    merger, out = tw.Merger(SCHEMA), []
    for name, form in {"S": S, "U": U, "W": W}.items():
        merger.attach(name)
        stream = OpenClose(SCHEMA)
        for at, step in enumerate(form):
            cti = 7 if at == len(form) - 1 else None
            out += list(elements_of(merger.push(name, elements(stream, step, cti=cti))))
    assert tw.cht(out) == TABLE and merger.status().alarm_count == 0


def test_a_payload_may_open_again_and_what_a_cti_has_passed_is_dropped() -> None:
    stream = OpenClose(SCHEMA)
    out = elements(stream, ("open", 1, "A"), ("close", 4, "A"), ("open", 4, "A"), ("open", 2, "B"))
    out += elements(stream, ("close", 9, "A"), ("close", 3, "B"), cti=5)
    assert tw.cht(out) == [(1, 4, {"p": "A"}), (2, 3, {"p": "B"}), (4, 9, {"p": "A"})]
    assert len(stream) == 1
    with pytest.raises(UnknownRowError, match=r"\{'p': 'B'\} is closed at 6, but no event"):
        elements(stream, ("close", 8, "A"), ("close", 6, "B"))
    assert tw.cht([*out, *elements(stream, ("close", 8, "A"))])[-1] == (4, 8, {"p": "A"})
    elements(stream, cti=INFINITY)
    assert len(stream) == 0


@pytest.mark.parametrize(
    ("steps", "error", "words"),
    [
        ([("open", 1, "A"), ("open", 2, "A")], InputError, "the event before it is open"),
        ([("open", 1, "A"), ("close", 4, "A"), ("open", 3, "A")], InputError, "ends at 4"),
        ([("open", 5, "A"), ("close", 4, "A")], LifetimeError, "before it opens at 5"),
        ([("shut", 5, "A")], InputError, "not 'shut'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    steps: list[Step], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        elements(OpenClose(SCHEMA), *steps)
