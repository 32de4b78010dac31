"""Two inputs: joins, and what cuts or covers the rows of one by those of another."""
