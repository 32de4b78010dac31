"""What the literature compares with, written as it describes it: buffering, slack, aggregation that
assumes order."""
