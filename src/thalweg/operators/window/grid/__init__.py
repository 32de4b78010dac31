"""Hopping and tumbling windows: sums, panes, bins and kept rows."""
