"""The vector runner itself: what it reads, what it accepts, and that it can tell wrong from
right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from thalweg.errors import LateEventError
from thalweg.expr import Expr, Frame
from thalweg.model import INFINITY, Adjust, Batch, Cti, Insert, Progress
from thalweg.plan.explain import plan_text
from thalweg.plan.nodes import Ingress, Source, walk
from thalweg.testing import ReferenceEngine
from thalweg.testing._vector_data import FILLER, Vector, read_vector
from thalweg.testing._vector_expr import VectorError, translate, translate_keys
from thalweg.testing._vector_plan import plan_of
from thalweg.testing.vectors import main, run_vector, run_vectors

S0 = {"op": "source", "name": "s0"}


def vector_line(**changes: Any) -> str:
    case: dict[str, Any] = {
        "name": "shift",
        "op": {"op": "shift", "by": 10, "in": S0},
        "inputs": {
            "s0": [
                ["insert", 1, 5, {"v": 1}],
                ["start_edge", 2, {"v": 2}],
                ["cti", 2],
                ["end_edge", 7, 2, {"v": 2}],
            ]
        },
        "expected_table": [[11, 15, {"v": 1}], [12, 17, {"v": 2}]],
    }
    return json.dumps(
        {key: value for key, value in {**case, **changes}.items() if value is not ...}
    )


def vector(**changes: Any) -> Vector:
    return read_vector(vector_line(**changes))


# ------------------------------------------------------------------------------------------------
# reading


def test_elements_are_read() -> None:
    inputs = [
        ["insert", 1, None, {"v": 1}],
        ["start_edge", 2, {"v": 2}],
        ["end_edge", 7, 2, {"v": 2}],
        ["cti", None],
        ["cti_p", 5, "k"],
    ]
    assert vector(inputs={"s0": inputs}).inputs["s0"] == [
        Insert({"v": 1}, 1, INFINITY),
        Insert({"v": 2}, 2, INFINITY),
        Adjust({"v": 2}, 2, INFINITY, 7),
        Cti(INFINITY),
        Cti(5, {"_p": "k"}),
    ]


def schemas_of(**sources: list[dict[str, Any]]) -> Mapping[str, pa.Schema]:
    return vector(
        inputs={
            name: [["start_edge", 0, payload] for payload in payloads]
            for name, payloads in sources.items()
        }
    ).schemas


def test_types_are_inferred() -> None:
    schema = schemas_of(
        s0=[
            {"i": 1, "f": 1, "t": None, "b": True, "n": None},
            {"i": None, "f": 0.5, "t": "x", "b": None, "n": None},
        ]
    )["s0"]
    assert [str(kind) for kind in schema.types] == ["int64", "double", "string", "bool", "int64"]


def test_types_of_numbers_and_nulls_agree_across_sources() -> None:
    found = schemas_of(s0=[{"v": 1, "t": None}], s1=[{"v": 0.5, "t": "x"}])
    assert found["s0"] == found["s1"] == pa.schema([("v", pa.float64()), ("t", pa.string())])


def test_a_source_without_columns_or_rows_still_has_a_schema() -> None:
    assert schemas_of(s0=[{}])["s0"].names == [FILLER]
    assert schemas_of(s0=[{"v": 1}], s1=[])["s1"].names == ["v"]


MALFORMED = [
    ("{", "not JSON"),
    ("[1, 2]", "name, op and inputs"),
    (vector_line(op=...), "name, op and inputs"),
    (vector_line(inputs=[]), "must be objects"),
    (vector_line(expected_table=...), "expected_table or an expected_error"),
    (
        vector_line(inputs={"s0": [["inserted", 1, 2, {}]]}),
        '["inserted", 1, 2, {}] is not an element',
    ),
    (vector_line(inputs={"s0": [["insert", "now", 2, {}]]}), "a time is a whole number"),
    (
        vector_line(inputs={"s0": [["insert", 1, 2, {"v": 1}], ["insert", 1, 2, {"v": "x"}]]}),
        "several kinds: int, text",
    ),
    (vector_line(expected_table=[[1, 2]]), "is not a row"),
]


@pytest.mark.parametrize(("line", "words"), MALFORMED, ids=[words for _, words in MALFORMED])
def test_a_malformed_line_is_an_outcome_that_says_why(line: str, words: str) -> None:
    good, bad = run_vectors([vector_line(), "", line], forms=2, engine=ReferenceEngine)
    assert good.status == "pass"
    assert (bad.name, bad.status) == ("line 3", "fail") and words in bad.detail


# ------------------------------------------------------------------------------------------------
# expressions

ROW = {
    "v": 17,
    "w": -7,
    "f": 2.5,
    "t": "cab",
    "n": None,
    "m": None,
    "l.x": 3,
    "r.x": 4,
    "_start": 100,
}
FRAME = Frame.of(
    pa.RecordBatch.from_pylist(
        [ROW],
        pa.schema(
            [
                (name, pa.scalar(value).type if value is not None else pa.int64())
                for name, value in ROW.items()
            ]
        ),
    )
)
SCHEMA = pa.schema([(name, column.type) for name, column in FRAME.columns.items()])


def value_of(expr: Expr) -> object:
    return expr.evaluate(FRAME)[0].as_py()


EXPRESSIONS: list[tuple[str, object]] = [
    ("v % 10 == 7", True),
    ("w // 2", -4),
    ("w % 5", 3),
    ("v / 2", 8.5),
    ("'x' if v > 3 else 'y'", "x"),
    ("t[0]", "c"),
    ("t[1:3]", "ab"),
    ("t[:2]", "ca"),
    ("{'cab': 1, 'b': 2}[t]", 1),
    ("{'a': 1}[t]", None),
    ("int('12') + 1", 13),
    ("int(f)", 2),
    ("float(v)", 17.0),
    ("str(v) + ',' + t", "17,cab"),
    ("len(t) * -1", -3),
    ("-v + abs(w)", -10),
    ("max(v, w)", 17),
    ("t.upper()", "CAB"),
    ("t.startswith('c') and not t.endswith('c')", True),
    ("l.x + r.x", 7),
    ("_start - 1", 99),
    ("1 < l.x <= 3", True),
    ("v in (1, 17)", True),
    ("v not in (1, 17)", False),
    ("n == None", True),
    ("n is not None", False),
    ("n == m", True),
    ("n != 3", True),
    ("n < 3", False),
    ("n == v", False),
    ("2 ** 3", 8),
    ("True or v > 99", True),
]


@pytest.mark.parametrize(("text", "value"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_an_expression_means_what_python_says(text: str, value: object) -> None:
    assert value_of(translate(text, SCHEMA)) == value


def test_numbers_and_nulls_may_stand_for_themselves() -> None:
    assert [value_of(translate(value, SCHEMA)) for value in (2, 0.5, None)] == [2, 0.5, None]


def test_keys_are_one_several_or_none() -> None:
    assert [str(key) for key in translate_keys("(v, t)", SCHEMA)] == ["v", "t"]
    assert [str(key) for key in translate_keys("v", SCHEMA)] == ["v"]
    assert translate_keys(None, SCHEMA) == ()


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "v.__class__",
        "[x for x in t]",
        "lambda: 1",
        "open('f')",
        "v @ w",
        "v >",
        "t[v]",
        "v := 1",
        "~v",
    ],
)
def test_nothing_else_is_an_expression(text: str) -> None:
    with pytest.raises(VectorError):
        translate(text, SCHEMA)


# ------------------------------------------------------------------------------------------------
# plans


def test_equal_subtrees_are_one_node() -> None:
    same = {"op": "where", "pred": "v > 1", "in": S0}
    query = plan_of(vector(op={"op": "union", "left": same, "right": dict(same)}))
    assert plan_text(query).splitlines()[-1] == "  where-1  (above)"


def source_of(op: dict[str, Any], **changes: Any) -> Source:
    return next(
        node for node in walk(plan_of(vector(op=op, **changes))) if isinstance(node, Source)
    )


def test_an_ingress_is_a_policy_of_its_source() -> None:
    op = {
        "op": "ingress",
        "disorder": "drop",
        "reorder_latency": 5,
        "punctuation_period": 10,
        "partitioned": True,
        "in": S0,
    }
    partitioned = {"s0": [["insert", 1, 2, {"_p": 1}]]}
    lagging = {**op, "disorder": "throw", "low_watermark": {"period": 10, "lag": 20}}
    assert source_of(op, inputs=partitioned).ingress == Ingress("drop", 5, 10, "_p", None)
    assert source_of(lagging, inputs=partitioned).ingress == Ingress("error", 5, 10, "_p", (10, 20))
    assert source_of({"op": "ingress", "disorder": "adjust", "in": S0}).ingress == Ingress(
        "adjust", 0
    )
    assert source_of(S0).ingress == Ingress()


def test_promises_of_partitions_are_declared() -> None:
    scoped = source_of(S0, inputs={"s0": [["insert", 1, 2, {"_p": 1}], ["cti_p", 1, 1]]})
    assert scoped.properties.group_ctis and scoped.properties.group_keys == ("_p",)


def test_the_row_of_the_largest_value_is_a_top_1() -> None:
    query = plan_of(
        vector(op={"op": "aggregate", "aggs": {"m": {"fn": "arg_max", "of": "v"}}, "in": S0})
    )
    assert plan_text(query).splitlines()[0] == "top_k-1  1 largest v, snapshot"


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ({"op": "sort", "in": S0}, "unknown operation 'sort'"),
        ({"op": "group"}, "outside of a group_apply"),
        ({"op": "source", "name": "s9"}, "no input for the source 's9'"),
        (
            {"op": "aggregate", "aggs": {"m": {"fn": "mode", "of": "v"}}, "in": S0},
            "unknown aggregate 'mode'",
        ),
        ({"op": "where", "pred": "nope > 1", "in": S0}, "unknown column 'nope'"),
        ({"op": "ingress", "in": {"op": "stitch", "in": S0}}, "directly on a source"),
    ],
)
def test_a_query_that_cannot_be_translated_fails_and_says_why(
    op: dict[str, Any], words: str
) -> None:
    outcome = run_vector(vector(op=op), forms=1, engine=ReferenceEngine)
    assert outcome.status == "fail" and words in outcome.detail


# ------------------------------------------------------------------------------------------------
# running


def test_a_right_answer_passes_and_a_wrong_expectation_fails() -> None:
    assert run_vector(vector(), forms=6, engine=ReferenceEngine).status == "pass"
    for table in (
        [],
        [[11, 15, {"v": 1}]],
        [[11, 15, {"v": 1}], [12, 18, {"v": 2}]],
        [[11, 15, {"v": 1}], [12, 17, {"v": 2}], [12, 17, {"v": 2}]],
    ):
        outcome = run_vector(vector(expected_table=table), forms=6, engine=ReferenceEngine)
        assert outcome.status == "fail"
        assert "form 0, consistency speculative: " in outcome.detail


def test_floats_are_compared_with_tolerance() -> None:
    op = {"op": "aggregate", "aggs": {"s": {"fn": "sum", "of": "v"}}, "in": S0}
    inputs = {"s0": [["insert", 1, 2, {"v": 0.1}], ["insert", 1, 2, {"v": 0.2}]]}
    assert (
        run_vector(
            vector(op=op, inputs=inputs, expected_table=[[1, 2, {"s": 0.3}]]),
            forms=3,
            engine=ReferenceEngine,
        ).status
        == "pass"
    )


class Careless(ReferenceEngine):
    """Takes back what it promised."""

    def answer(self, rows: Any) -> list[Batch]:
        return [Batch.empty(self.query.schema, Progress(1_000)), *super().answer(rows)]


class Hasty(ReferenceEngine):
    """Promises 10 at once, and no more before the end."""

    def push(self, source_name: str, batch: Batch) -> list[Batch]:
        super().push(source_name, batch)
        return [Batch.empty(self.query.schema, Progress(10))]


class Strict(ReferenceEngine):
    """Refuses the second event."""

    def push(self, source_name: str, batch: Batch) -> list[Batch]:
        super().push(source_name, batch)
        if len([e for e in self.seen[source_name] if isinstance(e, Insert)]) > 1:
            raise LateEventError("too late")
        return []


def test_a_broken_promise_fails() -> None:
    outcome = run_vector(vector(), forms=1, engine=Careless)
    assert outcome.status == "fail" and "breaks its own promise" in outcome.detail


def test_expected_promises_must_be_made_before_the_end() -> None:
    assert run_vector(vector(expected_ctis=[10, None]), forms=1, engine=Hasty).status == "pass"
    assert (
        run_vector(vector(expected_ctis=[[10, "k"], None]), forms=1, engine=Hasty).status == "pass"
    )
    for missing in (11, [11, "k"]):
        outcome = run_vector(vector(expected_ctis=[missing, None]), forms=1, engine=Hasty)
        assert outcome.status == "fail" and "the CTI 11" in outcome.detail


def test_an_expected_error_must_come() -> None:
    refused = vector(expected_error="out_of_order", expected_table=None)
    assert run_vector(refused, forms=4, engine=Strict).status == "pass"
    outcome = run_vector(refused, forms=4, engine=ReferenceEngine)
    assert outcome.status == "fail" and "should have been refused (out_of_order)" in outcome.detail


def test_an_unexpected_error_fails() -> None:
    outcome = run_vector(vector(), forms=4, engine=Strict)
    assert outcome.status == "fail" and "LateEventError: too late" in outcome.detail


class Attentive(ReferenceEngine):
    """Remembers the order in which elements came."""

    orders: list[list[Any]]

    def finish(self) -> list[Batch]:
        self.orders.append(list(self.seen["s0"]))
        return super().finish()


def orders_of(op: dict[str, Any]) -> list[list[Any]]:
    class Fresh(Attentive):
        orders: list[list[Any]] = []  # noqa: RUF012 - one list for all engines of this test

    inputs = {"s0": [["insert", at, at + 5, {"v": at}] for at in range(8)]}
    run_vector(
        vector(op=op, inputs=inputs, expected_table=[[at, at + 5, {"v": at}] for at in range(8)]),
        forms=20,
        engine=Fresh,
    )
    return Fresh.orders


def test_order_varies_unless_it_has_a_meaning() -> None:
    free, fixed = orders_of(S0), orders_of({"op": "ingress", "disorder": "drop", "in": S0})
    assert len(free) >= 20 and len({tuple(map(str, order)) for order in free}) > 10
    assert len(fixed) >= 20 and len({tuple(map(str, order)) for order in fixed}) == 1


# ------------------------------------------------------------------------------------------------
# the command


def test_the_command_prints_a_line_for_each_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(f"{vector_line()}\n{vector_line(name='again')}\n", encoding="utf-8")
    assert main([str(file), "--forms", "3"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["name"], line["status"]) for line in lines] == [
        ("shift", "pass"),
        ("again", "pass"),
    ]
    assert all(list(line) == ["name", "status", "detail"] for line in lines)


def test_the_command_ends_with_1_when_a_case_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(
        "\n".join([vector_line(expected_table=[]), vector_line(), "nonsense"]), encoding="utf-8"
    )
    assert main([str(file), "--forms", "2"]) == 1
    assert [json.loads(line)["status"] for line in capsys.readouterr().out.splitlines()] == [
        "fail",
        "pass",
        "fail",
    ]


@pytest.mark.parametrize(
    "arguments", [["nowhere.jsonl"], [__file__, "--forms", "0"], [__file__, "--engine", "abacus"]]
)
def test_wrong_arguments_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2 and capsys.readouterr().err
