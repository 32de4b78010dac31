"""Mutated files through the worker's reader, one after the other, in a process of their own.

    python -m tests.regressions.hostile_files SEED FIRST LAST FOLDER

Every case is a file of some format with some damage, made from its number alone. What comes out are
rows of the declared columns, dead letters, or an error of the tree. Anything else ends the process
with the case; a case that takes too long, or kills the process, is known by the number in
`FOLDER/case`.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from thalweg.errors import InputError
from thalweg.io.listing import Found
from thalweg.io.row_bytes import read_rows
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.exchange.header import Header, Message
from thalweg.shards.exchange.ingest import Ingest
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import targets_of
from thalweg.shards.sources.event_columns import EventColumns
from thalweg.shards.sources.event_files import FileChunks
from thalweg.spark.sources.file_feed import FileReader, Files
from thalweg.spark.sources.file_offsets import FilePart
from thalweg.stream import source

SECONDS = 30
"""Of processor time, for one file; twenty times that by the clock, where it only waits."""
LARGEST = 16 << 20
MEMORY = 6 << 30
ROWS: list[dict[str, object]] = [
    {"ts": 3, "k": "a", "v": 1.5, "when": "2026-01-01T00:00:00"},
    {"ts": 1, "k": 'b "quoted", \n2', "v": None, "when": None},
    {"ts": 2, "k": None, "v": -0.0, "when": "2026-03-29T02:30:00"},
] * 20
COLUMNS = pa.schema(
    [("ts", pa.int64()), ("k", pa.string()), ("v", pa.float64()), ("when", pa.timestamp("us"))]
)
PAYLOAD = pa.schema([entry for entry in COLUMNS if entry.name != "ts"])
Mutation = Callable[[random.Random, bytes], bytes]


# ------------------------------------------------------------------------------------------------
# what is damaged


def table() -> pa.Table:
    texts = pa.Table.from_pylist(ROWS, COLUMNS.set(3, pa.field("when", pa.string())))
    made = texts.set_column(3, "when", texts["when"].cast(pa.timestamp("us")))
    extra = pa.array([[n, None] for n in range(len(made))], pa.list_(pa.int32()))
    return made.append_column("list", extra).append_column(
        "dict", pa.array(["x", "y", None] * 20).dictionary_encode()
    )


def parquet(rng: random.Random) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        table(),
        sink,
        compression=rng.choice(["none", "snappy", "zstd"]),
        use_dictionary=rng.random() < 0.5,
        write_page_checksum=rng.random() < 0.5,
        data_page_version=rng.choice(["1.0", "2.0"]),
        row_group_size=rng.choice([7, 60]),
    )
    return sink.getvalue()


def arrow(rng: random.Random) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]))
    with pa.ipc.new_file(sink, table().schema, options=options) as writer:
        writer.write_table(table(), max_chunksize=rng.choice([7, 60]))
    return sink.getvalue()


def csv(rng: random.Random) -> bytes:
    sink = io.BytesIO()
    pyarrow.csv.write_csv(table().drop_columns(["list", "dict"]), sink)
    return _as_text(rng, sink.getvalue())


def jsonl(rng: random.Random) -> bytes:
    return _as_text(rng, b"".join(json.dumps(row).encode() + b"\n" for row in ROWS))


def _as_text(rng: random.Random, data: bytes) -> bytes:
    form = rng.randrange(8)
    if form == 0:
        return gzip.compress(data, mtime=0)
    if form == 1:
        return data.decode().encode("utf-16")
    return data.replace(b"\n", b"\r\n") if form == 2 else data


FORMATS = {"parquet": parquet, "arrow": arrow, "csv": csv, "json": jsonl}

# ------------------------------------------------------------------------------------------------
# damage


def flip(rng: random.Random, data: bytes) -> bytes:
    mutable = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8, 50])):
        mutable[rng.randrange(len(mutable))] ^= 1 << rng.randrange(8)
    return bytes(mutable)


def number(rng: random.Random, data: bytes) -> bytes:
    """A whole number that lengths and offsets do not expect."""
    value = rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, 2**20])
    size = rng.choice([1, 2, 4, 8])
    at = rng.randrange(max(1, len(data) - size)) // size * size
    return data[:at] + (value % (1 << 8 * size)).to_bytes(size, "little") + data[at + size :]


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def cut_inside(rng: random.Random, data: bytes) -> bytes:
    begin, end = sorted(rng.randrange(len(data)) for _ in range(2))
    return data[:begin] + data[end:]


def repeat(rng: random.Random, data: bytes) -> bytes:
    begin, end = sorted(rng.randrange(len(data)) for _ in range(2))
    return data[:end] + data[begin:end] * rng.choice([1, 2, 30]) + data[end:]


def insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    pieces = [
        rng.randbytes(rng.randrange(1, 40)),
        b"[" * rng.choice([10, 300, 40_000]),
        b'{"a":' * rng.choice([10, 300, 40_000]),
        b"\xff\xfe\x00",
        b'"',
        b"\r",
        b"\n",
        b"\n[\n[\n[" * 20_000,
        b",,,,,,",
        b'{"ts": 1, "ts": 2}\n',
        b'{"ts": 99999999999999999999999, "k": "' + b"x" * 2_000_000 + b'"}\n',
        b"1e999",
        b"\x00",
        b"ts,ts,k,v,when\n",
    ]
    return data[:at] + rng.choice(pieces) + data[at:]


def swap(rng: random.Random, data: bytes) -> bytes:
    one, two = (rng.randrange(len(data)) for _ in range(2))
    size = rng.choice([1, 4, 8, 64])
    first, second = data[one : one + size], data[two : two + size]
    return data.replace(first, second, 1)


MUTATIONS: list[Mutation] = [flip, flip, number, number, cut, cut_inside, repeat, insert, swap]


def case(seed: int, at: int) -> tuple[str, bytes, bool, bool]:
    """A format, a file, whether bad records are passed over, and whether the file is sound."""
    rng = random.Random(f"{seed}-{at}")
    format_ = rng.choice(list(FORMATS))
    data = FORMATS[format_](rng)
    sound = rng.random() < 0.02
    if not sound:
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            data = rng.choice(MUTATIONS)(rng, data)[:LARGEST] if data else data
    return format_, data, rng.random() < 0.5, sound


# ------------------------------------------------------------------------------------------------
# reading


def walk(column: pa.Array) -> None:
    """Look at every value. A time may lie beyond those that Python can show: Arrow, and the rows,
    hold any."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    column.to_pylist()


def read(folder: Path, format_: str, data: bytes, *, skip: bool) -> tuple[int, int]:
    """The rows and the dead letters that the worker's reader makes of a file."""
    (folder / "case.bin").write_bytes(data)
    files = Files(
        str(folder), format_, EventColumns("ts"), columns=COLUMNS, bad="skip" if skip else "fail"
    )
    stream = source("s", PAYLOAD, insert_only=True)
    ingest = Ingest(targets_of(fragments_of(stream.node), [0, 1], source="s"))
    reader = FileReader(FileChunks(files, ingest, PAYLOAD, "s", str(folder / "log" / "s.files")))
    rows = letters = 0
    for packed in reader.read(FilePart([(0, Found("case.bin", len(data), 0))])):
        for row in packed.to_pylist():
            if row["blob"] is None:
                continue
            if Header.from_json(row["header"]).kind is Message.DEAD:
                letters += read_rows(row["blob"]).num_rows
                continue
            batch = batch_of_blob(row["blob"])
            batch.payload.validate(full=True)
            for column in batch.payload.columns:
                walk(column)
            assert batch.schema.equals(PAYLOAD), batch.schema
            rows += len(batch)
    return rows, letters


def main(seed: int, first: int, last: int, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    seen = {"rows": 0, "letters": 0, "errors": 0}
    for at in range(first, last):
        (folder / "case").write_text(str(at))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(20 * SECONDS)
        format_, data, skip, sound = case(seed, at)
        try:
            rows, letters = read(folder, format_, data, skip=skip)
            seen["rows"] += rows
            seen["letters"] += letters
            if sound and (rows, letters) != (len(ROWS), 0):
                raise AssertionError(f"a sound file gave {rows} rows and {letters} dead letters")
        except InputError as reason:
            if sound or not str(reason).strip() or "\n" in str(reason):
                raise
            seen["errors"] += 1
        except BaseException:
            sys.stderr.write(f"case {at}, {format_}, skip={skip}:\n{traceback.format_exc()}")
            sys.exit(3)
    sys.stdout.write(json.dumps(seen))


def read_poisons(folder: Path) -> None:
    """The files `0`, `1`, ... of a folder, called `title/format/policy` in `names.json`: what
    becomes of each, a line each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for at, name in enumerate(json.loads((folder / "names.json").read_text())):
        sys.stderr.write(f"{name}\n")
        _, format_, policy = name.split("/")
        try:
            rows, letters = read(
                folder, format_, (folder / str(at)).read_bytes(), skip=policy == "skip"
            )
            outcome = f"{rows} {letters}"
        except InputError as reason:
            outcome = str(reason)
        sys.stdout.write(f"{json.dumps([name, outcome])}\n")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        read_poisons(Path(sys.argv[1]))
    else:
        main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
