"""Benchmarks of a source checkout: each module with a function `run` is one, started by `thalweg
bench <name>`."""

import os

# No archive of classes is written beside a measurement, unless the measurement is about it.
os.environ.setdefault("THALWEG_CLASS_ARCHIVE", "off")
