"""A driver script: a merge of element logs on Spark, which writes a log itself. It is killed and
started again; the logs it reads go on."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.merge.ha_process import QUERY
from thalweg import spark as ts

__all__ = ["main"]


def main(folder: Path) -> None:
    merged = ts.merge_logs(
        str(folder / "registry"), groups=("k",), columns=QUERY.node.schema, batches_per_batch=2
    )
    ts.start(
        merged,
        to="elements",
        path=str(folder / "out"),
        checkpoint=str(folder / "checkpoint"),
        trigger="at once",
        buckets=2,
        progress=False,
    ).wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
