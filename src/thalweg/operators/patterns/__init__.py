"""Sequence patterns: pairs of events, and runs of events that match a regular pattern."""
