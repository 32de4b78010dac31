"""The law checker for modules: is what a module declares true?

`check_module` tries every law that a module's methods and properties claim on random windows. For
windows of rows D, D1, D2:

    the types           every output fits the declared columns, within the declared limits of time
    deterministic       the same rows give the same answer, from a new instance too
    any order           shuffled rows give the same answer
    steps               result(add(add(empty, D1), D2)) = result(add(empty, D1 + D2))
                                                        = compute(D1 + D2)
    remove undoes add   result(remove(add(add(empty, D1), D2), D2)) = result(add(empty, D1))
    merging             merge is associative and agrees with adding; so does merging saved states
    in columns          all windows in one call give what each gives alone; so do merged partials
    ignores ends        other ends, the same answer
    time-bound          a change at time t changes no output before t
    filters             leaving rows out before or after the module comes to the same
    ordered             the output of a window comes in order of start

A counter-example is made as small as possible before it is shown. A module of your own in a test:

>>> from thalweg.testing import assert_module_lawful
>>> assert_module_lawful("average", trials=20)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.testing._module_laws import LAWS
from thalweg.testing._module_trial import Broken, Trial
from thalweg.udm import DEFAULT, Module, Window
from thalweg.udm.types import schema_of

__all__ = ["Finding", "assert_module_lawful", "check_module"]

TRIALS = 100
_SIZES = (1, 1, 2, 3, 4, 6, 9)


@dataclass(frozen=True)
class Finding:
    """What became of one law."""

    law: str
    trials: int
    broken: str | None = None
    """The smallest window found on which it does not hold, and how."""

    @property
    def holds(self) -> bool:
        return self.broken is None


def check_module(
    module: str | Module,
    *,
    params: Mapping[str, Any] | None = None,
    columns: Mapping[str, str] | None = None,
    trials: int = TRIALS,
    seed: int = 0,
) -> list[Finding]:
    """Try every law that the module claims. `columns` are the columns of its input, for a module
    that takes any."""
    found = DEFAULT.find(module) if isinstance(module, str) else module
    schema = _input_schema(found, columns)
    parameters = tuple(sorted((params or {}).items()))
    found.instance(parameters)  # wrong parameters are an error of the caller, not a broken law
    findings = []
    for law in LAWS:
        if not law.claimed(found):
            continue
        random = Random(f"{seed}/{law.name}/{found.name}")
        broken, tried = None, 0
        while broken is None and tried < trials:
            rows = _rows(random, schema, nulls=found.nulls == "keep")
            trial = Trial(found, parameters, schema, rows, _window(random), random.randrange(2**32))
            tried += 1
            if _problem(law.check, trial) is not None:
                broken = _report(law.check, _shrunk(law.check, trial))
        findings.append(Finding(law.name, tried, broken))
    return findings


def assert_module_lawful(module: str | Module, **options: Any) -> None:
    """Raise AssertionError with a counter-example when a law that the module claims does not
    hold."""
    __tracebackhide__ = True
    broken = [finding for finding in check_module(module, **options) if not finding.holds]
    if broken:
        raise AssertionError("\n".join(f"{finding.law}: {finding.broken}" for finding in broken))


# ------------------------------------------------------------------------------------------------
# windows


def _input_schema(module: Module, columns: Mapping[str, str] | None) -> pa.Schema:
    if columns is not None:
        return schema_of(columns, f"columns for {module.name!r}")
    types = module.input_types()
    if types is None:
        raise PlanError(
            f"module {module.name!r} takes any columns; say on which it shall be checked: "
            "columns={'v': 'double'}."
        )
    return pa.schema([(name, pa.int64() if kind is None else kind) for name, kind in types.items()])


def _window(random: Random) -> Window:
    start = random.randint(0, 10)
    return Window(start, start + random.randint(1, 12))


def _rows(
    random: Random, schema: pa.Schema, *, nulls: bool
) -> list[tuple[int, int, dict[str, Any]]]:
    """Rows around the windows that are drawn; those that do not overlap one are left out when it is
    looked at."""
    rows: list[tuple[int, int, dict[str, Any]]] = []
    for _ in range(random.choice(_SIZES)):
        start = random.randint(-5, 24)
        payload = {field.name: _value(random, field.type, nulls=nulls) for field in schema}
        rows.append((start, start + random.randint(1, 12), payload))
    return rows


def _value(random: Random, kind: pa.DataType, *, nulls: bool) -> Any:
    if nulls and random.random() < 0.1:
        return None
    if pa.types.is_floating(kind):
        return random.randint(-8, 20) / 4
    if pa.types.is_boolean(kind):
        return random.random() < 0.5
    if pa.types.is_string(kind):
        return random.choice(["a", "b", "c", "ab"])
    if pa.types.is_integer(kind):
        return random.randint(0, 5)
    raise PlanError(
        f"the law checker has no values of type {kind}; give columns= of numbers, text or booleans."
    )


# ------------------------------------------------------------------------------------------------
# counter-examples


def _problem(law: Callable[[Trial], None], trial: Trial) -> str | None:
    try:
        law(trial)
    except Broken as reason:
        return str(reason)
    except Exception as reason:  # whatever a user's code raises
        return f"it raised {type(reason).__name__}: {reason}"
    return None


def _shrunk(law: Callable[[Trial], None], trial: Trial) -> Trial:
    """A smaller trial that breaks the law too: fewer rows, then plainer values."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(trial):
            if _problem(law, candidate) is not None:
                trial, smaller = candidate, True
                break
    return trial


def _smaller(trial: Trial) -> Iterator[Trial]:
    rows = trial.rows
    for at in range(len(rows)):
        yield trial.but(rows=[*rows[:at], *rows[at + 1 :]])
    for at, (start, end, payload) in enumerate(rows):
        for name, value in payload.items():
            for plainer in _plainer(value):
                yield trial.but(
                    rows=[*rows[:at], (start, end, {**payload, name: plainer}), *rows[at + 1 :]]
                )


def _plainer(value: Any) -> Sequence[Any]:
    if isinstance(value, bool) or value is None:
        return ()
    if isinstance(value, (int, float)):
        return [type(value)(plain) for plain in (0, 1) if abs(plain) < abs(value)]
    return ["a"] if isinstance(value, str) and value != "a" else ()


def _report(law: Callable[[Trial], None], trial: Trial) -> str:
    shown = "\n".join(f"    {row}" for row in trial.inside()) or "    (none)"
    meaning = inspect.getdoc(law) or ""
    return (
        f"{meaning}\n  window [{trial.window.start}, {trial.window.end}), rows (start, end, "
        f"payload):\n{shown}\n  {_problem(law, trial)}"
    )
