"""Files that were damaged or made to do harm: only clear errors, dead letters or right rows; no
signal, no raw traceback, no hang."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SEED = 17
SHARE = 2_500
"""Cases of one process."""


def run(first: int, last: int, folder: Path) -> dict[str, int]:
    folder.mkdir()
    module = "tests.regressions.hostile_files"
    command = [sys.executable, "-m", module, str(SEED), str(first), str(last), str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    case = (folder / "case").read_text() if (folder / "case").exists() else "none"
    assert done.returncode == 0, f"case {case} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_two_thousand_hostile_files(tmp_path: Path) -> None:
    found = run(0, 2_000, tmp_path / "0")
    assert min(found.values()) > 0, found


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_a_hundred_thousand_hostile_files(part: int, tmp_path: Path) -> None:
    first = 2_000 + part * SHARE
    run(first, first + SHARE, tmp_path / "0")


# ------------------------------------------------------------------------------------------------
# single poisons; all are read in one process, because one that works kills it

GOOD = b'{"ts": 1, "k": "a"}\n'
CELL = b"x" * 3_000_000
POISONS = {
    "deep": b'{"ts": 2, "x": ' + b"[" * 30_000 + b"]" * 30_000 + b"}\n",
    "over lines": b'{"ts": 2, "x": \n' + b"[\n" * 30_000,
    "objects": b'{"ts": 2, "x": ' + b'{"a":' * 30_000 + b"\n",
    "after closing": b'"}]' * 40_000 + b'\n{"ts": 2, "x": ' + b"[" * 30_000 + b"}\n",
    "no utf-8": b'{"ts": 2, "k": "\xff"}\n',
    "twice": b'{"ts": 2, "ts": 3}\n',
    "no object": b"[1]\n",
}


def falling_offsets() -> bytes:
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2**30, 5, 6)))
    texts = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"abcdef"))
    nothing = pa.nulls(3, pa.float64()), pa.nulls(3, pa.timestamp("us"))
    rows = pa.RecordBatch.from_arrays(
        [pa.array([1, 2, 3]), texts, *nothing], names=["ts", "k", "v", "when"]
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue().to_pybytes())


def checked_pages() -> tuple[bytes, bytes]:
    """A Parquet file with checksums of its pages, and the same with one bit of a value flipped."""
    columns = {"ts": list(range(200)), "k": ["abcd"] * 200, "v": [0.5] * 200}
    table = pa.table(columns).append_column("when", pa.nulls(200, pa.timestamp("us")))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="none", use_dictionary=False, write_page_checksum=True)
    whole = sink.getvalue()
    at = whole.index((100).to_bytes(8, "little"))
    return whole, whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]


def equal_rows() -> bytes:
    """Fifty million rows in a few hundred KiB: memory must not follow the number of rows."""
    size = 50_000_000
    sink = io.BytesIO()
    ones = pa.chunked_array([pa.repeat(1, 1_000_000)] * 50)
    texts = pa.chunked_array(
        [pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), 1_000_000), ["k"])] * 50
    )
    table = pa.table({"ts": ones, "k": texts, "v": ones.cast(pa.float64())})
    table = table.append_column(
        "when", pa.chunked_array([pa.nulls(1_000_000, pa.timestamp("us"))] * 50)
    )
    pq.write_table(table, sink, row_group_size=size, store_schema=False)
    return sink.getvalue()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By name: the error, or the numbers of rows and dead letters, of every poison."""
    folder = tmp_path_factory.mktemp("poisons")
    sound, flipped = checked_pages()
    files = {
        **{f"{name}/json/fail": GOOD + poison for name, poison in POISONS.items()},
        **{f"{name}/json/skip": GOOD + poison + GOOD for name, poison in POISONS.items()},
        "offsets/arrow/skip": falling_offsets(),
        "sound/parquet/fail": sound,
        "flipped/parquet/fail": flipped,
        "two columns/csv/fail": b"ts,k,k,v,when\n1,a,b,,\n",
        "large cell/csv/fail": b"ts,k,v,when\n1," + CELL + b",,\n2,b,,\n",
        "large cell/json/fail": b'{"ts": 1, "k": "' + CELL + b'"}\n' + GOOD,
        "bad records/csv/skip": b"ts,k,v,when\n" + b"x,a,1,\n" * 200_000 + b"1,a,1,\n",
        "bad records/json/skip": b'{"ts": "x"}\n' * 200_000 + GOOD,
        "no times/json/skip": b'{"k": "x"}\n' * 200_000 + GOOD,
    }
    names = list(files)
    for at, name in enumerate(names):
        (folder / str(at)).write_bytes(files[name])
    (folder / "names.json").write_text(json.dumps(names))
    command = [sys.executable, "-m", "tests.regressions.hostile_files", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("poison", POISONS)
def test_poison_in_json_is_an_error_or_a_dead_letter(poison: str, outcomes: dict[str, str]) -> None:
    assert outcomes[f"{poison}/json/fail"].startswith("the file case.bin cannot be read as json")
    rows, letters = outcomes[f"{poison}/json/skip"].split()
    assert int(rows) == 2 and int(letters) >= 1


def test_poison_in_columns_is_an_error(outcomes: dict[str, str]) -> None:
    assert outcomes["offsets/arrow/skip"].startswith("the file case.bin cannot be read as arrow")
    assert outcomes["sound/parquet/fail"] == "200 0"
    assert "CRC checksum" in outcomes["flipped/parquet/fail"]
    assert (
        "has the column 'k' 2 times; it has ts, k, k, v, when" in outcomes["two columns/csv/fail"]
    )


def test_large_cells_are_read(outcomes: dict[str, str]) -> None:
    assert outcomes["large cell/csv/fail"] == outcomes["large cell/json/fail"] == "2 0"


def test_many_bad_records_are_passed_over_in_time(outcomes: dict[str, str]) -> None:
    """Each of these took a minute and more."""
    for name in ("bad records/csv", "bad records/json", "no times/json"):
        assert outcomes[f"{name}/skip"] == "1 200000"


@pytest.mark.slow
def test_a_small_file_of_many_equal_rows_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(equal_rows())
    (tmp_path / "names.json").write_text(json.dumps(["equal/parquet/fail"]))
    assert (tmp_path / "0").stat().st_size < 2 << 20
    command = [sys.executable, "-m", "tests.regressions.hostile_files", str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == ["equal/parquet/fail", "50000000 0"]
