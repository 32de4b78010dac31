"""Merging streams while they run: inputs that join and leave, logs, replicas, switching queries."""

from thalweg.merge.merger import InputStatus, Merger, MergeStatus

__all__ = ["InputStatus", "MergeStatus", "Merger"]
