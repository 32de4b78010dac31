"""Physical kernels, one operator per file in a folder for its family, what all of them share, and
the table that says which kernel runs a node (`registry`)."""

from thalweg.operators.base import Operator, Slices, StateSize
from thalweg.operators.consistency import Consistency, Gate
from thalweg.operators.registry import kernel_for

__all__ = ["Consistency", "Gate", "Operator", "Slices", "StateSize", "kernel_for"]
