"""A home for Spark whose Python processes import pyspark from where this process does.

A JVM gives its Python processes a path that begins with `python/lib/pyspark.zip` of its home. From
such an archive Python compiles every module anew in every process: a third of a second of work for
each of the six that there are before a first answer. The home here has links to everything but that
archive, so that they find the installed package.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pyspark

__all__ = ["home_path", "home_without_archive"]

_PARTS = ("bin", "jars", "conf", "data", "sbin")
_HOME = "SPARK_HOME"


def home_path() -> Path | None:
    """Where such a home is kept; None where there is no need of one: Spark was not installed as a
    package, or a home was chosen."""
    installed = _installed()
    if _HOME in os.environ or not (installed / "python" / "lib" / "pyspark.zip").exists():
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.sha256(str(installed).encode()).hexdigest()[:16]
    return cache / "thalweg" / f"spark-{name}"


def _installed() -> Path:
    return Path(pyspark.__file__).resolve().parent


def _linked() -> Path | None:
    """The home to start a JVM with; None where it cannot be made."""
    home, installed = home_path(), _installed()
    if home is None:
        return None
    try:
        home.mkdir(parents=True, exist_ok=True)
        for part in _PARTS:
            if (installed / part).is_dir() and not (home / part).is_dir():
                with contextlib.suppress(FileExistsError):  # another process was faster
                    (home / part).symlink_to(installed / part, target_is_directory=True)
    except OSError:
        return None
    return home if (home / "bin").is_dir() and (home / "jars").is_dir() else None


@contextlib.contextmanager
def home_without_archive(*, launches: bool) -> Iterator[None]:
    """Start a JVM with such a home; this process goes on without one."""
    home = _linked() if launches else None
    if home is None:
        yield
        return
    os.environ[_HOME] = str(home)
    try:
        yield
    finally:
        del os.environ[_HOME]
