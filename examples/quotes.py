"""Disordered quotes: one listener, four connections to the same venue, each with its own delay.

A quarter of the quotes are older than one that came before, and most come several times. `distinct`
leaves one of each; the best bid and ask of every five seconds do not depend on which connection was
first. What `disorder=` costs is measured: how many quotes would have been left out with less of it.

    python -m examples.quotes            # in this process
    python -m examples.quotes --spark    # on Spark
"""

from __future__ import annotations

import pyarrow.parquet as pq

import thalweg as tw
from examples.answers import DATA, answers, on_spark, read


def quotes(*, spark: bool = False, disorder: str = "10 s") -> tw.Stream:
    """Quotes as they came, each once."""
    received = read("quotes.parquet", spark=spark, time="ts", disorder=disorder, late="drop")
    return received.drop("connection").distinct()


def best(quotes: tw.Stream) -> tw.Stream:
    """The best bid and ask of each symbol, and their spread, every five seconds."""
    edges = (
        quotes.group_by("symbol")
        .tumbling("5 s")
        .aggregate(bid=tw.max_("bid"), ask=tw.min_("ask"), quotes=tw.count())
    )
    return edges.with_columns(spread="ask - bid")


def left_out(disorder: str) -> int:
    """How many quotes come too late for a disorder."""
    engine = tw.Engine(best(quotes(disorder=disorder)))
    received = pq.read_table(DATA / "quotes.parquet")
    for at in range(0, received.num_rows, 50):
        engine.push("quotes", received.slice(at, 50))
    return engine.late_count("quotes")


def main() -> None:
    spark = on_spark(__doc__)
    print("Best bid and ask, every five seconds")
    table = answers(best(quotes(spark=spark)), spark=spark)
    for start, _, row in [entry for entry in table if entry[2]["symbol"] == "BTCTUSD"]:
        print(
            f"  {start:%H:%M:%S}  bid {row['bid']:>10,.2f}  ask {row['ask']:>10,.2f}"
            f"  spread {row['spread']:>6.2f}  from {row['quotes']} quotes"
        )
    print("Quotes that would be left out")
    for disorder in ("0 s", "100 ms", "1 s", "10 s"):
        print(f"  {disorder:>6}  {left_out(disorder):>4}")


if __name__ == "__main__":
    main()
