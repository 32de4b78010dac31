"""Modules by name: namespaces, versions, packages that bring some; and the command that shows
them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

import thalweg as tw
from thalweg import udm
from thalweg.cli import main
from thalweg.errors import PlanError, TypeMismatchError, UnknownColumnError
from thalweg.udm import DEFAULT, Registry, aggregate, operator
from thalweg.udm.registry import ENTRY_POINTS

S = tw.source("s", {"price": "double", "name": "string", "n": "int64"})


def register(registry: Registry, name: str, version: str = "1", result: int = 0) -> None:
    def compute(values: Sequence[float]) -> int:
        return result

    compute.__qualname__ = f"{name}/{version}/{result}"
    aggregate(name, inputs={"v": "double"}, output="int64", version=version, registry=registry)(
        compute
    )


def test_the_newest_version_is_used_unless_one_is_asked_for() -> None:
    registry = Registry()
    for version in ("1.9", "1.10", "1.2"):
        register(registry, "finance.spread", version)
    assert registry.find("spread").version == "1.10"
    assert registry.find("finance.spread@1.2").version == "1.2"
    with pytest.raises(PlanError, match=r"has no version '3'; it has 1\.2, 1\.9, 1\.10"):
        registry.find("spread@3")


def test_a_namespace_may_be_left_out_while_only_one_has_the_name() -> None:
    registry = Registry()
    register(registry, "std.spread")
    register(registry, "finance.spread")
    assert registry.find("spread").name == "finance.spread"  # the shipped library gives way
    register(registry, "risk.spread")
    with pytest.raises(
        PlanError, match=r"several modules are called 'spread': finance\.spread, risk\.spread"
    ):
        registry.find("spread")


def test_two_definitions_of_one_version_are_refused_but_the_same_one_may_run_again() -> None:
    registry = Registry()
    register(registry, "spread", result=1)
    register(registry, "spread", result=1)
    with pytest.raises(
        PlanError, match=r"spread@1 is already defined by tests.*give yours another version="
    ):
        register(registry, "spread", result=2)


def test_a_name_nobody_knows() -> None:
    with pytest.raises(PlanError, match=r"no module 'medain'\. Did you mean 'median'\?"):
        S.snapshot().apply("medain", "price")


def test_packages_bring_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package says in its entry points which of its modules to import."""
    (tmp_path / "chart_library.py").write_text(
        "from thalweg import udm\n\n"
        "@udm.aggregate('charts.last', inputs={'v': 'double'}, output='double')\n"
        "def last(values):\n    'The last value.'\n    return values[-1]\n"
    )
    info = tmp_path / "chart_library-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chart-library\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\ncharts = chart_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    from thalweg.udm.registry import _load_everything

    try:
        _load_everything()
        assert DEFAULT.find("charts.last").doc == "The last value."
        assert "charts.last@1" in CliRunner().invoke(main, ["udm", "list"]).output
    finally:
        DEFAULT._entries.pop("charts.last", None)
        sys.modules.pop("chart_library", None)


# ------------------------------------------------------------------------------------------------
# mistakes


def _use(made: object) -> None:
    if made is len:  # what a module gives is looked at when it is used
        S.snapshot().apply("x", "price")


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (
            lambda: S.snapshot().apply("median"),
            UnknownColumnError,
            "say which column is its input 'value'",
        ),
        (lambda: S.snapshot().apply("median", "prcie"), UnknownColumnError, "Did you mean 'price'"),
        (
            lambda: S.snapshot().apply("median", "name"),
            TypeMismatchError,
            "the input 'value' is double; name is string",
        ),
        (lambda: S.snapshot().apply("median", "price", "n"), PlanError, "it takes 1 inputs"),
        (
            lambda: S.snapshot().apply("median", valeu="price"),
            PlanError,
            "no input 'valeu'. Did you mean 'value'",
        ),
        (lambda: S.snapshot().apply("median", "price", value="n"), PlanError, "given twice"),
        (
            lambda: S.snapshot().apply("weighted_quantile", "price", "n", params={"p": 1}),
            PlanError,
            "does not take these parameters",
        ),
        (
            lambda: S.snapshot().apply("median", "price", clip="full"),
            PlanError,
            "the module is not time-sensitive",
        ),
        (
            lambda: S.snapshot().apply("median", "price", stamp="keep"),
            PlanError,
            "leave stamp= out",
        ),
        (
            lambda: S.snapshot().apply("interpolate", "price", params={"every": 1}, stamp="kepe"),
            PlanError,
            "Did you mean 'keep'",
        ),
        (
            lambda: S.snapshot().apply("median", "price", on_error="ignore"),
            PlanError,
            "on_error must be one of fail, skip",
        ),
        (
            lambda: S.snapshot().apply("median", "price", time_limit=0),
            PlanError,
            "the time limit must be positive",
        ),
        (
            lambda: S.session(5).apply(
                "followed_by", "name", params={"first": "a", "second": "b", "within": 3}
            ),
            PlanError,
            "time-bound",
        ),
        (
            lambda: S.group_by("name").snapshot().apply("mode", "price", name="name"),
            PlanError,
            "is also a key",
        ),
        (
            lambda: S.snapshot().apply(cast(Any, len), "price"),
            PlanError,
            "is no module",
        ),
        (lambda: S.count_by_start(0), PlanError, "at least 1"),
        (
            lambda: S.count_by_end(2).aggregate(n=tw.count()),
            PlanError,
            "count windows by end take modules",
        ),
        (lambda: operator("x", output="double")(len), PlanError, "an operator gives payloads"),
        (lambda: aggregate("x", output="dubble")(len), PlanError, "Did you mean 'double'"),
        (
            lambda: aggregate("x", output="double", takes="list")(len),
            PlanError,
            "takes must be one of",
        ),
        (
            lambda: aggregate("x", output="double")(type("Empty", (), {})),
            PlanError,
            "has nothing to compute with",
        ),
        (
            lambda: aggregate("x", output="double")(type("Half", (), {"add": len})),
            PlanError,
            "no empty()",
        ),
        (
            lambda: operator("x", output={"a": "double"}, stamp="keep")(len),
            PlanError,
            "only a time-sensitive module stamps its output",
        ),
        (
            lambda: operator("x", output={"a": "double"}, time_sensitive=True, time_bound=True)(
                len
            ),
            PlanError,
            "goes with stamp='time-bound'",
        ),
        (lambda: aggregate("no name", output="double")(len), PlanError, "is no name for a module"),
    ],
)
def test_mistakes_are_refused_where_they_are_made(
    build: Callable[[], object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error) as refused:
        _use(build())
    assert says in str(refused.value)
    assert __file__ in str(refused.value)


# ------------------------------------------------------------------------------------------------
# command


def run(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["udm", *args])
    return done.exit_code, done.output


def test_list_and_show() -> None:
    code, text = run("list")
    assert code == 0 and "std.median@1" in text and "The middle value" in text
    code, text = run("show", "time_weighted_average")
    assert (
        code == 0
        and "time-sensitive" in text
        and "clip full" in text
        and "incremental, differential" in text
    )
    code, text = run("show", "weighted_quantile")
    assert "q: 'float' = 0.5" in text
    assert run("show", "medain")[0] == 1


def test_check_shows_a_counter_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "liars.py").write_text(
        "from thalweg import udm\n\n"
        "@udm.aggregate('liars.first', inputs={'v': 'int64'}, output='int64', any_order=True)\n"
        "def first(values):\n    return values[0]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    code, text = run("--load", "liars", "check", "liars.first", "--trials", "50")
    assert code == 1
    assert "any order          BROKEN" in text and "deterministic      holds" in text
    assert "Shuffled rows give the same answer." in text
    assert text.count("'v':") >= 2 and "1 law is broken." in text
    assert run("check", "median", "--trials", "10")[0] == 0
    assert (
        run("check", "top_k", "-p", "k=1", "-p", "by=v")[0] == 1
    )  # it takes any columns, so they must be said


def test_functions_are_shown_too() -> None:
    @udm.function("shown.doubled", inputs=["double"], output="double")
    def twice(value: float) -> float:
        """Two times."""
        return 2 * value

    assert run("show", "shown.doubled") == (
        0,
        "shown.doubled@1, a function\n  double -> double\n\n  Two times.\n",
    )
