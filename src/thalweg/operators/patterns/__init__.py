"""Sequence patterns: which event takes which, and runs that a regular pattern recognises."""
