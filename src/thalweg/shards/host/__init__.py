"""Queries that come and go while one Spark query runs."""
