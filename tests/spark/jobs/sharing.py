"""Spark's daemon with workers that share holders. A task does here what its data says, and tells
which process ran it."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from typing import BinaryIO

import pyspark.serializers
import pyspark.worker
from pyspark.core.broadcast import Broadcast, _broadcastRegistry
from pyspark.daemon import manager
from pyspark.serializers import SpecialLengths

from thalweg.spark.processes import dispatcher
from thalweg.spark.processes.holders import share_holders

ANSWER, WAIT, FAIL, CRASH, BROADCAST = range(5)

read_int: Callable[[BinaryIO], int] = pyspark.serializers.read_int
write_int: Callable[[int, BinaryIO], None] = pyspark.serializers.write_int


def run_task(infile: BinaryIO, outfile: BinaryIO) -> None:
    """What a worker does with a task: its first message, its data, and both ends."""
    if read_int(infile) != SpecialLengths.START_OF_INIT_MESSAGE:
        raise AssertionError("bytes of the task were lost")
    infile.read(read_int(infile))
    write_int(os.getpid(), outfile)
    outfile.flush()
    match read_int(infile):
        case 1:  # WAIT
            read_int(infile)
        case 2:  # FAIL
            raise SystemExit(7)
        case 3:  # CRASH
            os.kill(os.getpid(), signal.SIGKILL)
        case 4:  # BROADCAST
            _broadcastRegistry[1] = Broadcast(path="none")
    read_int(infile)
    write_int(SpecialLengths.END_OF_STREAM, outfile)
    outfile.flush()


if __name__ == "__main__":
    pyspark.worker.main = run_task
    dispatcher._IDLE_S = float(os.environ["IDLE_S"])
    os.setpgid(0, 0)
    gc.freeze()
    share_holders()
    manager()
