"""Through Spark Connect: `frame` runs, goes on from its checkpoint and refuses a changed query; `start`
is refused in one sentence."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
ROOT = Path(__file__).parents[2]


def test_a_client_of_a_server(tmp_path: Path) -> None:
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("NO SPARK CONNECT: grpc is not installed (pip install 'thalweg[connect]').")
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.jobs.connect", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["start"].startswith("start: through Spark Connect what is done with each")
    assert "write frame(query, checkpoint=...)" in told["start"]
    assert told["first"] == [[0, "a", 1], [0, "b", 1], [10, "b", 1]]
    assert told["again"] == [[0, "a", 1], [0, "b", 1], [10, "b", 1], [20, "b", 1], [30, "b", 1]]
    assert "was 'tumbling(10) by k: n = count()', and is now" in told["changed"]
    assert told["unchanged"] is True
