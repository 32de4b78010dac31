"""Benchmarks of a source checkout: each module with a function `run` is one, started by `thalweg
bench <name>`."""
