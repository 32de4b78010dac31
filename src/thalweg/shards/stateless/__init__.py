"""Queries that keep no rows: no exchange, no state store."""
