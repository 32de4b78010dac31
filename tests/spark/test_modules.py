"""Modules on real Spark: a representative set of laws, dead letters, and modules that only the
driver's `__main__` knows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle as untyped

import tests.udm.modules
from tests.operators.test_laws import Law, finite
from tests.spark.test_on_spark import restarted
from tests.udm.test_laws import LAWS
from tests.udm.test_window_kinds import WINDOWS, applied
from thalweg.testing import CONSISTENCIES, assert_form_right
from thalweg.testing.spark_engine import SparkEngine

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

cloudpickle: Any = untyped
CHOSEN = (
    "total per group over hopping",
    "sums over snapshot",
    "weighted, clip full, over count",
    "time-bound per group over tumbling",
    "scoped promises",
    "sums over slide by tuple, partitions",
)


KINDS = {
    "sums over slide by tuple, partitions": Law(
        lambda: applied(WINDOWS["slide by tuple, partitions"], "t.sums"), finite
    )
}


@pytest.fixture(autouse=True)
def _by_value() -> Iterator[None]:
    """Spark's workers do not know the folder of the tests: what it defines travels with the
    query."""
    cloudpickle.register_pickle_by_value(tests.udm.modules)
    yield
    cloudpickle.unregister_pickle_by_value(tests.udm.modules)


@pytest.mark.parametrize(("number", "name"), list(enumerate(CHOSEN)), ids=CHOSEN)
def test_law(number: int, name: str) -> None:
    law = KINDS[name] if name in KINDS else LAWS[name]
    assert_form_right(
        law.build(),
        restarted(law, name),
        consistency=CONSISTENCIES[number % len(CONSISTENCIES)],
        engine=SparkEngine,
    )


NOTEBOOK = """
import thalweg as tw
from thalweg import spark, udm

@udm.aggregate("notebook.my_average", inputs={"value": "double"}, output="double")
def my_average(values):
    if max(values) > 1000:
        raise ValueError("too much")
    return sum(values) / len(values)

@udm.aggregate(
    "notebook.my_time_weighted_average",
    inputs={"value": "double"},
    output="double",
    time_sensitive=True,
    clip="full",
)
class MyTimeWeightedAverage:
    def compute(self, events, window):
        return sum(event.payload * event.duration for event in events) / window.duration

@udm.function("notebook.even", inputs=["int64"], output="bool")
def even(number):
    return number % 2 == 0

readings = spark.from_files(FOLDER, time="ts", disorder=0, late="drop")
even = readings.where("notebook.even(id)").group_by("id").tumbling("10 s")
mean = even.apply("my_average", "value", on_error="skip")
lasting = readings.set_duration("5 s").group_by("id").tumbling("10 s")
weighted = lasting.apply("my_time_weighted_average", "value")
"""


def _second(start: Any) -> int:
    """The table gives times as the source had them: timestamps."""
    return int(start.replace(tzinfo=UTC).timestamp())


def test_modules_of_a_notebook(tmp_path: Path) -> None:
    """`MyAverage` and the time-weighted average of the paper, defined where nobody can import
    them."""
    from thalweg import spark as ts

    (tmp_path / "in").mkdir()
    second = [0, 2, 8, 12, 13, 40]
    table = {
        "ts": pa.array([at * 1_000_000 for at in second], pa.timestamp("us", "UTC")),
        "id": [2, 2, 2, 4, 2, 3],
        "value": [1.0, 3.0, 8.0, 5000.0, 7.0, 0.0],
    }
    pq.write_table(pa.table(table), tmp_path / "in" / "0.parquet")
    names: dict[str, Any] = {"__name__": "__main__", "FOLDER": str(tmp_path / "in")}
    exec(compile(NOTEBOOK, "notebook", "exec"), names)  # noqa: S102
    letters: list[dict[str, Any]] = []

    def note(frame: Any, _batch: int) -> None:
        letters.extend(row.asDict() for row in frame.collect())

    running = ts.start(
        names["mean"], consistency="final", trigger="available now", skipped=note, progress=False
    )
    running.wait()
    assert [
        (_second(start), row["id"], row["my_average"]) for start, _, row in running.table()
    ] == [(0, 2, 4.0), (10, 2, 7.0)]
    assert [(letter["start"], letter["group"]) for letter in letters] == [(10_000_000, '{"id": 4}')]
    assert "it raised ValueError: too much" in letters[0]["reason"]
    running = ts.start(
        names["weighted"], consistency="final", trigger="available now", progress=False
    )
    running.wait()
    found = {
        (_second(start), row["id"]): row["my_time_weighted_average"]
        for start, _, row in running.table()
    }
    assert found[0, 2] == pytest.approx((1 * 5 + 3 * 5 + 8 * 2) / 10)
    assert found[10, 2] == pytest.approx((8 * 3 + 7 * 5) / 10)
