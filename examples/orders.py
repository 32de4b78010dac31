"""Order lifetimes: what rests in an order book, though only its changes are sent.

A venue sends a price level each time its size changes, with size 0 when its last order is gone. A
message says nothing of how long it holds: each lasts until the next one of the same level. From
these lifetimes follow how deep the book is at any moment, how long levels rest, and their size
weighted by time.

    python -m examples.orders            # in this process
    python -m examples.orders --spark    # on Spark
"""

from __future__ import annotations

import thalweg as tw
from examples.answers import answers, on_spark, read


def changes(*, spark: bool = False) -> tw.Stream:
    """What the venue sent, as points in time."""
    levels = read("levels.parquet", spark=spark, time="received", disorder="1 s", late="drop")
    return levels.select("side", "price", "size")


def resting(changes: tw.Stream) -> tw.Stream:
    """Each level with its size, from one message to the next; gone while its size is 0."""
    return changes.edges(on=["side", "price"]).where("size > 0")


def depth(resting: tw.Stream) -> tw.Stream:
    """How many levels rest on each side, and how much on all of them, from each change to the
    next."""
    rounded = resting.with_columns(size="cast(size as bigint)")
    return rounded.group_by("side").snapshot().aggregate(levels=tw.count(), size=tw.sum_("size"))


def stays(resting: tw.Stream) -> tw.Stream:
    """A level that keeps its place while its size changes is one stay."""
    return resting.select("side", "price").stitch()


def main() -> None:
    spark = on_spark(__doc__)
    table = answers(depth(resting(changes(spark=spark))), spark=spark)
    for side in ("ask", "bid"):
        rows = [entry for entry in table if entry[2]["side"] == side]
        at, _, row = max(rows, key=lambda entry: entry[2]["levels"])
        print(
            f"{side}: at most {row['levels']} levels of {row['size']:,} in all, at {at:%H:%M:%S.%f}"
        )
    ended = [
        (end - start).total_seconds()
        for start, end, _ in answers(stays(resting(changes(spark=spark))), spark=spark)
        if end is not None
    ]
    ended.sort()
    print(f"{len(ended)} levels came and went; half of them within {ended[len(ended) // 2]:.2f} s,")
    print(f"the longest after {ended[-1]:.1f} s.")


if __name__ == "__main__":
    main()
