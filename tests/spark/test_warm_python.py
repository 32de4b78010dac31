"""Processes forked from the template behave as if Python itself had been started."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from thalweg.spark.processes.warm_python import _LAUNCHER, _Template

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="no handles of processes")

SHOWS = """
import os, sys
if __name__ == "__main__":
    arguments, place = sys.argv[1:], os.getcwd()
    print(arguments, os.environ["GIVEN"], place, "pyspark.worker" in sys.modules, sys.stdin.read())
    print("complaint", file=sys.stderr)
    raise SystemExit(7)
"""
WAITS = """
import os, signal
if __name__ == "__main__":
    print(os.getpid(), flush=True)
    signal.pause()
"""
ANSWERS = """
import sys
print("ready", flush=True)
print(sys.stdin.read())
"""
ENDS_BY_SIGNAL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def template() -> Iterator[_Template]:
    with contextlib.closing(_Template()) as started:
        yield started


@pytest.fixture
def launcher(template: _Template) -> str:
    return str(template.launcher)


def run(launcher: str, folder: Path, source: str) -> subprocess.Popen[str]:
    (folder / "shown.py").write_text(source)
    return subprocess.Popen(
        [launcher, "-m", "shown", "a", "b c"],
        cwd=folder,
        env=os.environ | {"GIVEN": "yes", "PYTHONPATH": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_arguments_environment_folder_files_and_end(launcher: str, tmp_path: Path) -> None:
    process = run(launcher, tmp_path, SHOWS)
    out, err = process.communicate("told", timeout=60)
    assert out == f"['a', 'b c'] yes {tmp_path} True told\n"
    assert err == "complaint\n"
    assert process.returncode == 7


def test_an_error_is_shown_as_python_shows_it(launcher: str, tmp_path: Path) -> None:
    process = run(launcher, tmp_path, "raise ValueError('odd')")
    _, err = process.communicate(timeout=60)
    assert err.rstrip().endswith("ValueError: odd") and process.returncode == 1


def test_the_launcher_ends_by_the_same_signal(launcher: str, tmp_path: Path) -> None:
    process = run(launcher, tmp_path, ENDS_BY_SIGNAL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def test_a_process_ends_with_its_launcher(launcher: str, tmp_path: Path) -> None:
    process = run(launcher, tmp_path, WAITS)
    assert process.stdout is not None
    handle = os.pidfd_open(int(process.stdout.readline()))
    process.kill()
    process.communicate()
    ended, _, _ = select.select([handle], [], [], 60)
    assert ended == [handle]
    os.close(handle)


def test_processes_go_on_without_the_template(template: _Template, tmp_path: Path) -> None:
    process = run(str(template.launcher), tmp_path, ANSWERS)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    template.close()
    assert template.process.returncode == 0
    assert process.communicate("told", timeout=60)[0] == "told\n"
    assert process.returncode == 0


def test_a_launcher_without_a_template_becomes_python(tmp_path: Path) -> None:
    text = _LAUNCHER.format(python=sys.executable, server=str(tmp_path / "nobody"))
    (tmp_path / "python").write_text(text)
    (tmp_path / "python").chmod(0o700)
    process = run(str(tmp_path / "python"), tmp_path, SHOWS)
    out, _ = process.communicate("told", timeout=60)
    assert out == f"['a', 'b c'] yes {tmp_path} False told\n"
    assert process.returncode == 7
