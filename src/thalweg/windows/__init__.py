"""Window kinds: how the time axis is divided. An event belongs to a window when their times overlap."""

from thalweg.windows.counts import CountWindow
from thalweg.windows.kinds import HoppingWindow, SessionWindow, SnapshotWindow, Window

__all__ = ["CountWindow", "HoppingWindow", "SessionWindow", "SnapshotWindow", "Window"]
