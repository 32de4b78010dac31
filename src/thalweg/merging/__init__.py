"""Merging streams while they run: inputs that join and leave, logs, replicas, switching queries."""

from thalweg.merging.cutover import Cutover
from thalweg.merging.logged import LoggedMerge
from thalweg.merging.merger import InputStatus, Merger, MergeStatus
from thalweg.merging.open_close import OpenClose
from thalweg.merging.registry import MergeEntry, MergeRegistry
from thalweg.merging.switched import SwitchedMerge

__all__ = [
    "Cutover",
    "InputStatus",
    "LoggedMerge",
    "MergeEntry",
    "MergeRegistry",
    "MergeStatus",
    "Merger",
    "OpenClose",
    "SwitchedMerge",
]
