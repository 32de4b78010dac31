"""The physical-variation fuzzer: the answer must not depend on the form in which the input arrives.

`assert_physically_independent` plays many forms of one logical input through an engine and checks
each output (`checks.output_problem`). A failing form is shrunk, and reported as Python that can be
pasted into a test.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from thalweg.model import Batch, Row, cht
from thalweg.plan.nodes import Node
from thalweg.testing.checks import output_problem, output_table
from thalweg.testing.compare import sort_rows
from thalweg.testing.forms import Form, Inputs, Logical, illegality, logical_inputs
from thalweg.testing.oracle import oracle
from thalweg.testing.runners import EngineType, Runner, engine_runner
from thalweg.testing.shrink import shrink
from thalweg.testing.text import show_query, show_rows
from thalweg.testing.variation import forms_of

__all__ = ["CONSISTENCIES", "assert_form_right", "assert_physically_independent"]

CONSISTENCIES = ("speculative", "eager", "final")


@dataclass(frozen=True)
class _Trial:
    """Everything but the form: how a run is made, and the table it must give."""

    query: Node
    logicals: Mapping[str, Logical]
    runner: Runner
    consistency: str
    expected: Sequence[Row] | None
    horizon: int | None

    def tables(self, form: Form) -> dict[str, list[Row]]:
        return {
            name: cht(form.elements(name), logical.schema)
            for name, logical in self.logicals.items()
        }

    def wanted(self, form: Form) -> list[Row]:
        if self.expected is not None:
            return sort_rows(self.expected)
        return oracle(self.query, self.tables(form), horizon=self.horizon)

    def problem(self, form: Form) -> tuple[str, list[Batch]] | None:
        """What is wrong with a run over this form, and its output."""
        try:
            batches = self.runner(self.query, form, self.consistency)
        except Exception as reason:  # any failure of an engine is a finding
            return f"the engine raised {type(reason).__name__}: {reason}\n{_where(reason)}", []
        wrong = output_problem(batches, self.query.schema, self.wanted(form), self.consistency)
        return None if wrong is None else (wrong, batches)

    def fails(self, form: Form) -> bool:
        """Whether a smaller form still fails; one whose answer would be infinite is not a smaller
        form."""
        if self.expected is not None and illegality(form, self.logicals) is not None:
            return False
        try:
            self.wanted(form)
        except ValueError:
            return False
        return self.problem(form) is not None


def assert_physically_independent(
    query: Node,
    inputs: Inputs,
    *,
    forms: int = 50,
    seed: int = 0,
    consistency: str | Iterable[str] = CONSISTENCIES,
    expected: Sequence[Row] | None = None,
    engine: EngineType | None = None,
    runner: Runner | None = None,
    horizon: int | None = None,
) -> None:
    """Plays `forms` forms of the inputs at each consistency and raises AssertionError at the first
    wrong output.

    `inputs` gives per source either the rows of its table or a sequence of elements; the CTIs of a
    sequence are kept, delayed or thinned. `expected` is the table that must come out, the oracle's
    unless given. `engine` is a class like `thalweg.run.Engine` (the default); `runner` replaces the
    whole way in which a form is played. The same `seed` makes the same forms.
    """
    __tracebackhide__ = True
    logicals = logical_inputs(query, inputs)
    play = runner if runner is not None else engine_runner(engine)
    table = (
        expected
        if expected is not None
        else oracle(query, {n: logical.rows for n, logical in logicals.items()}, horizon=horizon)
    )
    levels = (consistency,) if isinstance(consistency, str) else tuple(consistency)
    for number, form in enumerate(forms_of(logicals, forms, seed)):
        for level in levels:
            # All forms of one input have one table: the oracle runs once, and again only for shrunk
            # inputs.
            if _Trial(query, logicals, play, level, table, horizon).problem(form) is not None:
                trial = _Trial(query, logicals, play, level, expected, horizon)
                small = shrink(form, trial.fails, drop_rows=expected is None)
                raise AssertionError(
                    _report(
                        trial,
                        small,
                        f"form {number} of seed {seed}, {len(form)} elements, shrunk to "
                        f"{len(small)}",
                    )
                )


def assert_form_right(
    query: Node,
    form: Form,
    *,
    consistency: str = "speculative",
    expected: Sequence[Row] | None = None,
    engine: EngineType | None = None,
    runner: Runner | None = None,
    horizon: int | None = None,
) -> None:
    """Plays one form, such as the one a failure reported, and checks its output in the same way."""
    __tracebackhide__ = True
    logicals = logical_inputs(query, {name: form.elements(name) for name in form.sources})
    trial = _Trial(
        query,
        logicals,
        runner if runner is not None else engine_runner(engine),
        consistency,
        expected,
        horizon,
    )
    if trial.problem(form) is not None:
        raise AssertionError(_report(trial, form, "the form given"))


def _where(reason: BaseException) -> str:
    """The innermost lines of a traceback."""
    frames = traceback.extract_tb(reason.__traceback__)[-3:]
    return "\n".join(
        f"  in {frame.name}, line {frame.lineno} of {frame.filename.rsplit('/', 1)[-1]}: "
        f"{frame.line}"
        for frame in frames
    )


def _report(trial: _Trial, form: Form, origin: str) -> str:
    found = trial.problem(form)
    problem, batches = (
        found
        if found is not None
        else ("it failed once and not again: the engine is not deterministic", [])
    )
    try:
        actual = show_rows(sort_rows(output_table(batches, trial.query.schema)))
    except Exception as reason:
        actual = f"  (no table: {reason})"
    return "\n".join(
        [
            (
                "the answer is wrong for one physical form of the input (consistency"
                f' "{trial.consistency}"; {origin})'
            ),
            f"problem: {problem}",
            f"query:\n{show_query(trial.query)}",
            "form, to be played with assert_form_right(query, form):",
            "from thalweg.model import adjust, cti, insert, remove",
            "from thalweg.testing import RESTART, Form, step",
            f"form = {form}",
            f"expected:\n{show_rows(trial.wanted(form))}",
            f"actual:\n{actual}",
        ]
    )
