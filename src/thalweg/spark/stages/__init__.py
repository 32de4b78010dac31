"""The stages of a Spark query: what runs in Spark's tasks, and the state that they keep."""
