"""The processes that Spark runs: its JVM, and the Python processes beside it."""
