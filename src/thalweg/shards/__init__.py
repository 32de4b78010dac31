"""A plan in fragments: how a query is cut at its exchanges, what travels between the parts, and a
fragment at work in one bucket. It knows no Spark; `local_engine` runs all of it in this process."""
