"""A quiet start: what the JVM and the Python workers write goes to a file, not to the terminal.

The JVM prints warnings at its start that a user cannot act upon, then its log and the traces of
workers. Failures reach the user as an error of the query. The file exists while the process runs;
`THALWEG_SPARK_LOG` names another one that stays, or `-` for the terminal.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from thalweg.errors import ThalwegError

__all__ = ["quiet_start", "spark_log"]

_LOGS: list[Path] = []


def spark_log() -> Path | None:
    """Where the JVM of this process writes to; None: the terminal."""
    return _LOGS[-1] if _LOGS else None


@contextlib.contextmanager
def quiet_start(*, launches: bool) -> Iterator[None]:
    """Start a JVM whose standard error is a file."""
    chosen = os.environ.get("THALWEG_SPARK_LOG", "")
    if not launches or chosen == "-":
        yield
        return
    if chosen:
        log = Path(chosen)
    else:
        handle, name = tempfile.mkstemp(prefix="thalweg-spark-", suffix=".log")
        os.close(handle)
        log = Path(name)
        atexit.register(log.unlink, missing_ok=True)
    _LOGS.append(log)
    sys.stderr.flush()
    kept = os.dup(2)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 2)
        yield
    except Exception as reason:
        last_lines = log.read_text(errors="replace").strip().splitlines()[-5:]
        raise ThalwegError(
            "Spark could not be started: "
            f"{str(reason).splitlines()[0] if str(reason) else type(reason).__name__} "
            f"{' | '.join(last_lines)}"
        ) from reason
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)
