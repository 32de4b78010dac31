"""Java classes of ours that run in Spark's JVM, and what calls them."""
