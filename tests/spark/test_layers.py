"""`spark/` is what Spark needs and nothing else, and every feed says what is true of it. No session
is started."""

from __future__ import annotations

import ast
from inspect import get_annotations
from pathlib import Path

import pytest

import thalweg as tw
from thalweg import spark
from thalweg.errors import PlanError
from thalweg.shards.sources.source_feed import SourceFeed
from thalweg.spark.sources.element_feed import Elements
from thalweg.spark.sources.file_feed import Files
from thalweg.spark.sources.frame_feed import Frame
from thalweg.spark.sources.generator_feed import Generator
from thalweg.spark.sources.merge_feed import MergedLogs
from thalweg.spark.sources.receiver_feed import Received

WITHOUT_PYSPARK = {
    "processes.java": "the Java that Spark runs on",
    "trigger": "the arguments of Spark's trigger",
    "processes.quiet": "what Spark's JVM prints",
    "jvm.sql_conditions": "conditions in Spark's SQL",
    "processes.unpacking": "runs in Spark's Python processes",
    "processes.warm_python": "starts Spark's Python processes",
}
"""Modules of `spark/` that import no pyspark, and what of Spark they are about all the same."""


def _imports_pyspark(path: Path) -> bool:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names.append(node.module)
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return any(name.split(".")[0] in ("pyspark", "py4j") for name in names)


def test_what_knows_no_spark_is_not_in_its_package() -> None:
    assert spark.__file__ is not None
    folder = Path(spark.__file__).parent
    modules = {
        ".".join(path.relative_to(folder).with_suffix("").parts): path
        for path in folder.rglob("*.py")
        if path.stem != "__init__"
    }
    found = {name for name, path in modules.items() if not _imports_pyspark(path)}
    assert found == set(WITHOUT_PYSPARK), "shards/ and io/ are for what knows no Spark"


FEEDS = (Elements, Files, Frame, Generator, MergedLogs, Received)


@pytest.mark.parametrize("fact", [name for name in vars(SourceFeed) if not name.startswith("_")])
@pytest.mark.parametrize("feed", FEEDS, ids=lambda feed: feed.__name__)
def test_every_feed_says_what_is_true_of_it(feed: type, fact: str) -> None:
    stated = {name for base in feed.__mro__ for name in (*vars(base), *get_annotations(base))}
    assert fact in stated


def test_a_frame_of_this_process_is_refused() -> None:
    frame = tw.from_frame([{"ts": 3, "k": "a"}], time="ts", name="orders")
    with pytest.raises(PlanError, match=r"'orders' is a frame in this process.*from_spark"):
        spark.start(frame.where("k = 'a'"), consistency="final")
