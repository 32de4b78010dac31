"""`thalweg bench`: finding, running and printing benchmarks. The benchmark here measures
nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from thalweg.cli import main
from thalweg.cli.bench import benchmarks_in
from thalweg.cli.checkout import find_checkout

TINY = '''"""Counts to ten."""

from benchmarks.limits import TOP


def run(emit, top=TOP, label="all"):
    emit("count", top, "rows", query="filter", label=label)
    emit("ratio", 0.25, "x")
'''


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "thalweg"\n')
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "limits.py").write_text("TOP = 10\n")
    (tmp_path / "benchmarks" / "tiny.py").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    mine = {
        name: sys.modules.pop(name)
        for name in list(sys.modules)
        if name.split(".")[0] == "benchmarks"
    }
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        del sys.modules[name]
    sys.modules.update(mine)


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", *arguments])


@pytest.mark.usefixtures("checkout")
def test_json_is_one_object_a_line() -> None:
    result = bench("tiny", "--json")
    assert result.exit_code == 0, result.output
    assert [json.loads(line) for line in result.output.splitlines()] == [
        {
            "bench": "tiny",
            "metric": "count",
            "value": 10,
            "unit": "rows",
            "params": {"query": "filter", "label": "all"},
        },
        {"bench": "tiny", "metric": "ratio", "value": 0.25, "unit": "x", "params": {}},
    ]


@pytest.mark.usefixtures("checkout")
def test_table_is_aligned() -> None:
    result = bench("-o", "top=1234567", "-o", "label=some", "tiny")
    assert result.output.splitlines() == [
        "tiny",
        "metric      value  unit  params",
        "count   1,234,567  rows  query=filter label=some",
        "ratio        0.25  x",
    ]


@pytest.mark.usefixtures("checkout")
def test_list_shows_only_what_can_run() -> None:
    assert bench("--list").output == "tiny  Counts to ten.\n"


@pytest.mark.usefixtures("checkout")
def test_no_name_means_all() -> None:
    assert bench("--json").output == bench("--json", "tiny").output


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tny"], "no benchmark 'tny'. Did you mean 'tiny'? There are: tiny."),
        (
            ["tiny", "-o", "size=3"],
            (
                "benchmark 'tiny' cannot take these options: got an unexpected keyword argument "
                "'size'."
            ),
        ),
        (["tiny", "-o", "size"], "'size' is not NAME=VALUE."),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str) -> None:
    result = bench(*arguments)
    assert result.exit_code != 0
    assert message in result.output


def test_outside_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "thalweg.cli.checkout.__file__", str(tmp_path / "installed" / "checkout.py")
    )
    result = bench("core")
    assert result.exit_code == 1
    assert "run this inside a checkout" in result.output


def test_checkout_is_found_from_below_and_from_the_package(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    deep = checkout / "src" / "thalweg"
    deep.mkdir(parents=True)
    assert find_checkout(deep, elsewhere / "bench.py") == checkout
    assert find_checkout(elsewhere, deep / "bench.py") == checkout
    assert find_checkout(elsewhere, elsewhere / "bench.py") is None


def test_another_project_is_not_ours(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (checkout / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert find_checkout(checkout, tmp_path_factory.mktemp("elsewhere") / "bench.py") is None


def test_reading_a_benchmark_does_not_import_it(checkout: Path) -> None:
    (checkout / "benchmarks" / "broken.py").write_text(
        '"""Never imported."""\nimport nothing_of_this_name\n\n\ndef run(emit): ...\n'
    )
    assert [one.name for one in benchmarks_in(checkout)] == ["broken", "tiny"]
