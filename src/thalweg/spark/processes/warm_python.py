"""Python processes for Spark without the wait: forked from one that has imported what they need.

For every source and every query with state, Spark runs `python -m ...` and waits until the process
has imported Spark anew, half a second each. Where this process starts Spark on its own machine, it
starts a *template* beside it, and gives Spark a *launcher* in the place of Python:

    launcher   a script that hands its arguments, environment and open files to the template, and
               ends as the process does that was forked for it; without a template it becomes Python
               itself
    template   forks a keeper for every launcher, and ends with the process that started it
    keeper     forks the process, reports to the launcher how it ended, and ends it when the
               launcher is gone
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["python_for_workers", "start_template"]

_LONGEST = 64
"""Kernels allow about twice this for the first line of a script and the name of a socket."""

_NAME = 15
"""Letters that Linux keeps of the name of a process."""

_LAUNCHER = """#!{python} -IS
import marshal, os, socket, sys

def hand_over(server):
    with socket.socket(socket.AF_UNIX) as template:
        template.connect(server)
        asked = marshal.dumps((sys.argv[1:], dict(os.environ), os.getcwd()))
        socket.send_fds(template, [len(asked).to_bytes(8, "big")], [0, 1, 2])
        template.sendall(asked)
        return template.recv(4)

try:
    ended = hand_over({server!r})
except OSError:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
code = int.from_bytes(ended, "big", signed=True) if ended else 1
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""


class _Template:
    """The template that this process has started. It ends with this one, whatever ends it."""

    def __init__(self) -> None:
        place = Path(tempfile.mkdtemp(prefix="thalweg-python-"))  # the template removes it
        self.launcher, server = place / "python", place / "server"
        self.launcher.write_text(_LAUNCHER.format(python=sys.executable, server=str(server)))
        self.launcher.chmod(0o700)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(server))
        listening.listen(64)
        # Spark's own hash seed, and the threads that it allows a worker: both are read at the
        # start.
        settings = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", **os.environ}
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "thalweg.spark.processes.warm_python",
                str(listening.fileno()),
                str(place),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
            process_group=0,  # an interrupt of this process is none of a worker's
            env=settings,
        )
        listening.close()
        atexit.register(self.close)

    def close(self) -> None:
        """End the template; processes that were forked go on."""
        atexit.unregister(self.close)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


_started: list[_Template] = []


def start_template() -> None:
    """Start the template, where the system supports it; requests wait until it has imported."""
    short = max(len(tempfile.gettempdir()), len(sys.executable)) < _LONGEST
    if short and not _started and hasattr(os, "pidfd_open"):
        _started.append(_Template())


def python_for_workers() -> str:
    """What Spark should start in the place of Python."""
    running = [template for template in _started if template.process.poll() is None]
    return str(running[0].launcher) if running else sys.executable


# ------------------------------------------------------------------------------------------------
# in the template


def _serve(listening: socket.socket) -> None:
    """Fork for every launcher until the process that started this one has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the status of a keeper is not needed
    gc.collect()
    gc.freeze()
    while True:
        ready, _, _ = select.select([listening.fileno(), 0], [], [])
        if 0 in ready:  # nothing is ever written: its end has come
            return
        launcher, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _keep(launcher)
        launcher.close()


def _keep(launcher: socket.socket) -> NoReturn:
    """Fork the process of a launcher and wait for the end of either."""
    head, files, _, _ = socket.recv_fds(launcher, 8, 3)
    size = int.from_bytes(head, "big")
    request = bytearray()
    while len(request) < size:
        more = launcher.recv(size - len(request))
        if not more:
            os._exit(1)
        request += more
    arguments, environment, folder = marshal.loads(request)
    process = os.fork()
    if process == 0:
        launcher.close()
        for place, file in enumerate(files):
            os.dup2(file, place)
            os.close(file)
        _become(arguments, environment, folder)
    for file in files:
        os.close(file)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)  # a keeper does not end with the template
    handle = os.pidfd_open(process)
    ready, _, _ = select.select([launcher.fileno(), handle], [], [])
    if handle not in ready:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    with contextlib.suppress(OSError):  # the launcher is gone
        launcher.sendall(code.to_bytes(4, "big", signed=True))
    os._exit(0)


def _become(arguments: Sequence[str], environment: Mapping[str, str], folder: str) -> NoReturn:
    """Run `-m module ...` as a Python that was started with this environment would."""
    code = 1
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
        rest = [path for path in sys.path[1:] if path not in paths]
        sys.path[:] = [folder, *paths, *rest]
        flag, module, *others = arguments
        if flag != "-m":
            os.execv(sys.executable, [sys.executable, *arguments])
        sys.argv = [module, *others]
        with contextlib.suppress(OSError):  # what `ps` and `top` show
            Path("/proc/self/comm").write_text(" ".join(sys.argv)[-_NAME:].strip())
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _listening:
        import thalweg.spark.processes.imported_by_workers  # noqa: F401

        _serve(_listening)
    shutil.rmtree(sys.argv[2], ignore_errors=True)
