"""`thalweg repro`: finding, running and drawing experiments. The experiment here measures
nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from thalweg.cli import main

TINY = '''"""Doubles x."""

from thalweg.cli.repro import Line

TITLE = "Twice as much"


def series(scale):
    for x in (1, 2):
        params = {"figure": "9-9", "series": "double", "x": x}
        yield Line("repro", "time", 2 * x * scale, "s", params)


def draw(lines, path):
    path.write_text(f"{len(list(lines))} points")
'''


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "benchmarks" / "repro").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "thalweg"\n')
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "repro" / "__init__.py").touch()
    for number in ("9_9", "9_10"):
        (tmp_path / "benchmarks" / "repro" / f"fig_{number}.py").write_text(TINY)
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


def repro(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["repro", *arguments])


@pytest.mark.usefixtures("checkout")
def test_json_is_one_point_a_line() -> None:
    result = repro("9-9", "--json", "--scale", "0.5")
    assert result.exit_code == 0, result.output
    assert [json.loads(line) for line in result.output.splitlines()] == [
        {
            "bench": "repro",
            "metric": "time",
            "value": 1.0 * x,
            "unit": "s",
            "params": {"figure": "9-9", "series": "double", "x": x},
        }
        for x in (1, 2)
    ]


@pytest.mark.usefixtures("checkout")
def test_table_has_a_title() -> None:
    assert repro("9-9").output.splitlines()[:2] == [
        "9-9: Twice as much",
        "metric  value  unit  params",
    ]


@pytest.mark.usefixtures("checkout")
def test_list_is_in_order_of_the_numbers() -> None:
    assert repro("--list").output == "9-9   Doubles x.\n9-10  Doubles x.\n"


def test_pictures_go_where_they_are_asked_for(checkout: Path) -> None:
    result = repro("9-9", "9-10", "--json", "--plot", "pictures")
    assert result.exit_code == 0, result.output
    assert sorted(file.name for file in (checkout / "pictures").iterdir()) == [
        "fig-9-10.png",
        "fig-9-9.png",
    ]
    assert (checkout / "pictures" / "fig-9-9.png").read_text() == "2 points"
    assert all(line.startswith("{") for line in result.stdout.splitlines())


@pytest.mark.usefixtures("checkout")
def test_an_unknown_figure_is_named() -> None:
    result = repro("9-8")
    assert result.exit_code == 1
    assert "no experiment '9-8'. Did you mean '9-9'? There are: 9-9, 9-10." in result.output


def test_the_usual_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.repro import draw_series, point

    lines = [
        point("9-9", name, x, "time", x * scale, "s")
        for name, scale in (("a", 1), ("b", 2))
        for x in (1, 2, 4)
    ]
    draw_series(lines, tmp_path / "figure.png", title="Two lines", x="size", log_x=True)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
