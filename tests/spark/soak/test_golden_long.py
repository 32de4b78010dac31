"""Every golden answer over recorded data, on Spark: files in emission order, in two batch sizes,
with and without a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
import thalweg.spark as tws
from tests.data.conftest import DATA
from tests.data.test_golden import CASES, Case, streams

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.shared_data,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
]

PIECES = 8


def in_emission_order(table: pa.Table, emission: str) -> list[pa.Table]:
    ordered = table.take(
        pa.array(np.argsort(table[emission].to_numpy(), kind="stable"))
    ).drop_columns([emission])
    ordered = ordered.rename_columns(["begins", "ends", *ordered.schema.names[2:]])
    rows = -(-len(ordered) // PIECES)
    return [ordered.slice(at, rows) for at in range(0, len(ordered), rows)]


def most_late(pieces: list[pa.Table]) -> int:
    start = np.concatenate([piece["begins"].to_numpy() for piece in pieces])
    return int((np.maximum.accumulate(start) - start).max())


def read_answers(folder: Path, schema: pa.Schema) -> pa.Table:
    files = [
        file for file in sorted(folder.glob("**/*.parquet")) if pq.read_metadata(file).num_rows
    ]
    names = ["_start", "_end", *schema.names]
    return pa.concat_tables(
        [pq.read_table(file, columns=names, partitioning=None) for file in files]
    )


@pytest.mark.parametrize(
    ("files_per_batch", "restarts"), [(1, True), (4, False)], ids=["restarted", "at once"]
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case.golden))
def test_golden_answers_on_spark(
    case: Case, files_per_batch: int, restarts: bool, tmp_path: Path
) -> None:
    if not (DATA / "golden.json").exists():
        pytest.skip(
            f"RECORDED DATA NOT FOUND: {DATA} does not exist, so the golden answers were not "
            "checked on Spark."
        )
    tables = case.events(DATA)
    schema = case.query(streams(tables)).schema
    pieces = {
        name: in_emission_order(table, emission) for name, (table, emission) in tables.items()
    }
    parts = (
        [(0, PIECES // 2, False), (PIECES // 2, PIECES, True)] if restarts else [(0, PIECES, True)]
    )
    for first, last, finish in parts:
        read: dict[str, tw.Stream] = {}
        for name, several in pieces.items():
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            for number, piece in list(enumerate(several))[first:last]:
                pq.write_table(piece, folder / f"{number:03}.parquet")
            times: dict[str, Any] = {
                "time": "begins",
                "end": "ends",
                "disorder": most_late(several),
            }
            read[name] = tws.from_files(
                str(folder), **times, files_per_batch=files_per_batch, finish=finish, name=name
            )
        paths: dict[str, Any] = {
            "path": str(tmp_path / "answers"),
            "checkpoint": str(tmp_path / "checkpoint"),
        }
        running = tws.start(
            case.query(read),
            to="parquet",
            output="final",
            consistency="final",
            trigger="available now",
            **paths,
        )
        try:
            running.wait()
        finally:
            running.stop()
        assert running.status().late == 0
    golden = json.loads((DATA / "golden.json").read_text())[case.golden[0]][case.golden[1]]
    assert case.answer(read_answers(tmp_path / "answers", schema)) == golden
