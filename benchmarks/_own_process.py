"""Each engine in a process of its own: nothing that one has warmed up, cached or set reaches the
other.

`call("benchmarks.sliding:measure_spark", ...)` starts a Python process that imports the function,
calls it with the arguments (as JSON), and gives back what it returned. An `OwnProcess` answers
several calls, so that engines stay warm while they are measured in turns.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any, Self

__all__ = ["OwnProcess", "call"]

_MARK = "result of the measurement: "


class OwnProcess:
    """A Python process that calls functions until it is closed."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._own_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def call(self, function: str, **arguments: Any) -> Any:
        """What `module:function` returns for these arguments."""
        told, answers = self._process.stdin, self._process.stdout
        assert told is not None
        assert answers is not None
        told.write(json.dumps([function, arguments]) + "\n")
        told.flush()
        for line in answers:
            if line.startswith(_MARK):
                return json.loads(line.removeprefix(_MARK))
        code = self._process.wait()
        raise RuntimeError(f"{function} ended with code {code}:\n{self._last_words()}")

    def error_lines(self) -> list[str]:
        """What was printed as an error so far."""
        self._errors.seek(0)
        return [line for line in self._errors.read().splitlines() if "ERROR" in line]

    def _last_words(self) -> str:
        self._errors.seek(0)
        return "\n".join(self._errors.read().splitlines()[-15:])

    def close(self) -> None:
        """End the process; once is enough."""
        if self._errors.closed:
            return
        self._process.communicate()  # its input ends, and with it the process
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def call(function: str, **arguments: Any) -> Any:
    """What `module:function` returns for these arguments, from a new process."""
    with OwnProcess() as process:
        return process.call(function, **arguments)


def main() -> None:
    """Answer the calls on standard input until it ends."""
    for line in sys.stdin:
        function, arguments = json.loads(line)
        module, _, name = function.partition(":")
        measure: Callable[..., Any] = getattr(importlib.import_module(module), name)
        sys.stdout.write(f"\n{_MARK}{json.dumps(measure(**arguments))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
