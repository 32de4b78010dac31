"""Each engine in a process of its own: nothing that one has warmed up, cached or set reaches the
other.

`call("benchmarks.sliding:measure_spark", ...)` starts a Python process that imports the function,
calls it with the arguments (as JSON), and gives back what it returned.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["call"]

_MARK = "result of the measurement: "


def call(function: str, **arguments: Any) -> Any:
    """What `module:function` returns for these arguments, from a new process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks._own_process", function, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_MARK):
            return json.loads(line.removeprefix(_MARK))
    last = "\n".join(done.stderr.splitlines()[-15:])
    raise RuntimeError(f"{function} ended with code {done.returncode}:\n{last}")


def main(function: str, arguments: str) -> None:
    module, _, name = function.partition(":")
    measure: Callable[..., Any] = getattr(importlib.import_module(module), name)
    sys.stdout.write(f"{_MARK}{json.dumps(measure(**json.loads(arguments)))}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
