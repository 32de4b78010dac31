"""The examples on Spark give the tables that they give in-process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import thalweg as tw
from examples import connections, flights, orders, quotes
from examples.answers import answers

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

QUERIES: dict[str, Callable[[bool], tw.Stream]] = {
    "connections": lambda spark: connections.busiest(connections.connections(spark=spark)),
    "flights": lambda spark: flights.departures(flights.flights(spark=spark)),
    "orders": lambda spark: orders.stays(orders.resting(orders.changes(spark=spark))),
    "quotes": lambda spark: quotes.best(quotes.quotes(spark=spark)),
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_same_table(name: str, spark: SparkSession) -> None:
    query = QUERIES[name]
    table = answers(query(True), spark=True)
    assert len(table) >= 15
    assert sorted(table, key=str) == sorted(answers(query(False), spark=False), key=str)
