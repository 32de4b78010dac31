"""Java classes of ours, compiled when they are first used: by Janino, which Spark itself compiles its
queries with.

The classes go into a jar that Spark hands to every executor, those that join later too. One of the
size of a page takes 0.45 seconds of processor time, once in an application.
"""

from __future__ import annotations

import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["java_class"]

_LOADED: dict[tuple[str, str], Any] = {}
"""By application and name: the class as the driver has it."""


def java_class(spark: SparkSession, name: str) -> Any:
    """The Java class `thalweg.NAME` of the file `NAME.java` beside this one."""
    context = spark.sparkContext
    key = (str(context.applicationId), name)
    if key not in _LOADED:
        jar = Path(str(context._temp_dir)) / f"thalweg-{name}.jar"
        _write(jar, _compiled(context._jvm, name))
        jsc: Any = context._jsc
        jsc.addJar(str(jar))
        _LOADED[key] = _loaded(context, jar, name)
    return _LOADED[key]


def _compiled(jvm: Any, name: str) -> dict[str, bytes]:
    """By name: the compiled classes of a file."""
    text = files("thalweg.spark").joinpath(f"{name}.java").read_text(encoding="utf-8")
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


def _loaded(context: Any, jar: Path, name: str) -> Any:
    jvm = context._jvm
    places = context._gateway.new_array(jvm.java.net.URL, 1)
    places[0] = jvm.java.io.File(str(jar)).toURI().toURL()
    loader = jvm.java.net.URLClassLoader(places, _loader(jvm))
    return jvm.java.lang.Class.forName(f"thalweg.{name}", True, loader)
