"""Aggregate, top-k and distinct over snapshots: maximal intervals in which nothing changes."""
