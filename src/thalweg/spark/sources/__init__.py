"""Where the rows of a source come from on Spark: the readers of ours, and DataFrames."""
