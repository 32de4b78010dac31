"""Java classes of ours, compiled when they are first used: by Janino, which Spark itself compiles
its queries with.

The classes go into a jar. One of the size of a page takes 0.2 to 0.45 seconds of processor time,
once in an application.
"""

from __future__ import annotations

import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

__all__ = ["driver_class", "java_class"]

_LOADED: dict[tuple[str, str], Any] = {}
"""By application and name: the class as the driver has it."""
_SHARED: set[tuple[str, str]] = set()
"""The classes that executors get, too."""


def java_class(spark: SparkSession, name: str) -> Any:
    """The Java class `thalweg.NAME` of the file `NAME.java` beside this one. Spark hands it to
    every executor, those that join later too."""
    context = spark.sparkContext
    loaded, key = driver_class(context, name), (str(context.applicationId), name)
    if key not in _SHARED:
        jsc: Any = context._jsc
        jsc.addJar(str(_jar(context, name)))
        _SHARED.add(key)
    return loaded


def driver_class(context: SparkContext, name: str) -> Any:
    """The same for the driver alone."""
    key = (str(context.applicationId), name)
    if key not in _LOADED:
        _write(_jar(context, name), _compiled(context._jvm, name))
        _LOADED[key] = _loaded(context, _jar(context, name), name)
    return _LOADED[key]


def _jar(context: SparkContext, name: str) -> Path:
    return Path(str(context._temp_dir)) / f"thalweg-{name}.jar"


def _compiled(jvm: Any, name: str) -> dict[str, bytes]:
    """By name: the compiled classes of a file."""
    text = files("thalweg.spark.jvm").joinpath(f"{name}.java").read_text(encoding="utf-8")
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(_loader(jvm))
    compiler.cook(f"{name}.java", jvm.java.io.StringReader(text))
    classes = compiler.getBytecodes()
    return {str(class_name): bytes(classes[class_name]) for class_name in classes}


def _loader(jvm: Any) -> Any:
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _write(jar: Path, classes: dict[str, bytes]) -> None:
    with zipfile.ZipFile(jar, "w") as archive:
        for name, code in classes.items():
            archive.writestr(f"{name.replace('.', '/')}.class", code)


def _loaded(context: SparkContext, jar: Path, name: str) -> Any:
    jvm: Any = context._jvm
    gateway: Any = context._gateway
    places = gateway.new_array(jvm.java.net.URL, 1)
    places[0] = jvm.java.io.File(str(jar)).toURI().toURL()
    loader = jvm.java.net.URLClassLoader(places, _loader(jvm))
    return jvm.java.lang.Class.forName(f"thalweg.{name}", True, loader)
