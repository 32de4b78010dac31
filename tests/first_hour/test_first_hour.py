"""The tasks of a first hour, from a wheel that was just built, in environments made for it: one
with nothing but the dependencies of the package itself, one with all extras."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import files, requires
from pathlib import Path

import pytest

from tests.first_hour import tasks

ROOT = Path(__file__).parents[2]
CORE = ("numpy", "pyarrow", "sqlglot", "click")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel and its own dependencies, and nothing else."""
    python, packages = _empty(tmp_path_factory.mktemp("core"), wheel)
    for name in CORE:
        tops = {Path(str(one)).parts[0] for one in files(name) or ()}
        for top in tops - {".."}:
            _link(packages / top)
    return python


@pytest.fixture(scope="module")
def full(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel and everything that the extras bring."""
    python, packages = _empty(tmp_path_factory.mktemp("full"), wheel)
    for place in _installed().iterdir():
        if "thalweg" not in place.name and place.suffix not in (".pth", ".egg-link"):
            _link(packages / place.name)
    return python


def _installed() -> Path:
    found = importlib.util.find_spec("numpy")
    assert found is not None and found.origin is not None
    return Path(found.origin).parents[1]


def _link(place: Path) -> None:
    if not place.exists():
        place.symlink_to(_installed() / place.name)


def _empty(folder: Path, wheel: Path) -> tuple[Path, Path]:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    shutil.unpack_archive(wheel, packages, "zip")
    return folder / "bin" / "python", packages


def _results(python: Path, which: str, folder: Path) -> dict[str, str | None]:
    """Run the tasks where nothing of the checkout can be imported."""
    shutil.copy(Path(tasks.__file__), folder / "tasks.py")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), "tasks.py", which],
        cwd=folder,
        env={**environment, "XDG_CACHE_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"task"')]
    assert lines, done.stderr
    return {line["task"]: line["wrong"] for line in lines}


def _all_right(which: str, results: dict[str, str | None]) -> None:
    assert list(results) == [one.__name__ for one in tasks.TASKS[which]]
    failed = {name: wrong for name, wrong in results.items() if wrong is not None}
    assert not failed, "\n".join(f"{name}: {wrong}" for name, wrong in failed.items())


def test_there_are_at_least_forty() -> None:
    assert sum(map(len, tasks.TASKS.values())) == 47


def test_the_package_alone_needs_few_others() -> None:
    needed = [one for one in requires("thalweg") or () if "extra ==" not in one]
    assert sorted(re.split(r"[<>=]", one)[0] for one in needed) == sorted(CORE)


def test_tasks_of_the_engine_alone(core: Path, tmp_path: Path) -> None:
    _all_right("core", _results(core, "core", tmp_path))


def test_tasks_with_the_extras(full: Path, tmp_path: Path) -> None:
    _all_right("full", _results(full, "full", tmp_path))


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_tasks_on_spark(full: Path, tmp_path: Path) -> None:
    _all_right("spark", _results(full, "spark", tmp_path))
