"""Flights by departure, though they are reported at arrival.

Two days of flights from New York, in the order of their arrivals. By departure nine of ten come out
of order, some by ten hours: a query by hours of departure answers at once and revises, for half a
day. A flight lasts from its departure to its landing, so that "how many are in the air" is a count.

    python -m examples.flights            # in this process
    python -m examples.flights --spark    # on Spark
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from examples.answers import DATA, answers, on_spark, read

HOUR = datetime(2013, 2, 7, 13, tzinfo=UTC)


def flights(*, spark: bool = False) -> tw.Stream:
    """Each flight from its departure to its landing. The longest takes less than 12 hours, and
    its report comes when it has landed."""
    return read(
        "flights.parquet",
        spark=spark,
        time="departed",
        end="landed",
        disorder="12 h",
        late="drop",
    )


def departures(flights: tw.Stream) -> tw.Stream:
    """Flights by airport and hour of departure."""
    return (
        flights.points()
        .group_by("origin")
        .tumbling("1 h")
        .aggregate(flights=tw.count(), miles=tw.sum_("miles"))
    )


def in_the_air(flights: tw.Stream) -> tw.Stream:
    """How many are in the air, from each change to the next."""
    return flights.snapshot().aggregate(flights=tw.count())


def story(reports: pa.Table, origin: str, hour: datetime) -> Iterator[str]:
    """What became of one answer while the reports came in, a hundred at a time."""
    engine = tw.Engine(departures(flights()))
    for at in range(0, reports.num_rows, 100):
        piece = reports.slice(at, 100)
        for change in tw.elements_of(engine.push("flights", piece)):
            if isinstance(change, tw.Cti) or change.payload["origin"] != origin:
                continue
            if tw.cti(hour).time == change.start:
                word = "taken back" if isinstance(change, tw.Adjust) else "answer"
                reported = piece.column("landed")[-1].as_py()
                yield f"  {reported:%d %H:%M}  {word:<10} {change.payload['flights']:>3}"


def main() -> None:
    spark = on_spark(__doc__)
    table = answers(departures(flights(spark=spark)), spark=spark)
    busiest = sorted(table, key=lambda row: (-row[2]["flights"], row[0], row[2]["origin"]))
    print("The busiest hours, by departure")
    for start, _, row in busiest[:5]:
        print(f"  {start:%Y-%m-%d %H:%M}  {row['origin']}  {row['flights']:>3} flights")
    print(f"JFK, {HOUR:%H:%M} to 14:00, as the reports came in")
    for line in story(pq.read_table(DATA / "flights.parquet"), "JFK", HOUR):
        print(line)
    start, end, row = max(
        answers(in_the_air(flights(spark=spark)), spark=spark), key=lambda row: row[2]["flights"]
    )
    print(
        f"At most {row['flights']} were in the air, {start:%H:%M} to {end:%H:%M} on "
        f"{start:%d %B %Y}."
    )


if __name__ == "__main__":
    main()
