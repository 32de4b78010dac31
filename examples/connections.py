"""Network connections: a sensor logs each when it ends, the questions are about when they were
open.

A connection lasts from its start to its end. Who has how many open at once is a count over
lifetimes; bytes by source are a tumbling window; the busiest sources of each window are its top
three. Two of three records are out of order by their start, the last ones by half a minute.

    python -m examples.connections            # in this process
    python -m examples.connections --spark    # on Spark
"""

from __future__ import annotations

import thalweg as tw
from examples.answers import answers, on_spark, read


def connections(*, spark: bool = False, file: str = "connections.parquet") -> tw.Stream:
    """Each connection while it was open."""
    return read(file, spark=spark, time="start", end="end", disorder="1 min", late="drop")


def open_at_once(connections: tw.Stream) -> tw.Stream:
    """How many connections each source has open, from each change to the next."""
    return connections.group_by("src").snapshot().aggregate(open=tw.count())


def busiest(connections: tw.Stream) -> tw.Stream:
    """The three sources that sent most in every ten seconds."""
    sent = (
        connections.points()
        .group_by("src")
        .tumbling("10 s")
        .aggregate(connections=tw.count(), bytes=tw.sum_("bytes"))
    )
    return sent.snapshot().top_k(3, by="bytes")


def main() -> None:
    spark = on_spark(__doc__)
    print("Most connections open at once, by source")
    most: dict[str, tuple[int, str]] = {}
    for start, _, row in answers(open_at_once(connections(spark=spark)), spark=spark):
        known = most.get(row["src"], (0, ""))
        most[row["src"]] = max(known, (row["open"], f"{start:%H:%M:%S}"))
    for source, (count, at) in sorted(most.items(), key=lambda entry: -entry[1][0]):
        print(f"  {source:<12} {count:>3}  at {at}")
    print("The three that sent most in every ten seconds")
    for start, end, row in answers(busiest(connections(spark=spark)), spark=spark)[:6]:
        print(f"  {start:%H:%M:%S} to {end:%H:%M:%S}  {row['src']:<12} {row['bytes']:>9,} bytes")


if __name__ == "__main__":
    main()
