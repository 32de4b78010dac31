"""Window kinds: how the time axis is divided.

An event belongs to a snapshot or hopping window when their times overlap, to a session by its
start. The kinds of the WID framework (`framework`) look at the start of an event as the time of a
tuple.
"""

from thalweg.windows.by_tuple import SlideByTuple
from thalweg.windows.counts import CountWindow
from thalweg.windows.framework import Category, Membership, Tuples, WindowIds, WindowKind, duality
from thalweg.windows.kinds import HoppingWindow, SessionWindow, SnapshotWindow
from thalweg.windows.sliding import LandmarkTime, SlidingRows, SlidingTime
from thalweg.windows.window import Window

__all__ = [
    "Category",
    "CountWindow",
    "HoppingWindow",
    "LandmarkTime",
    "Membership",
    "SessionWindow",
    "SlideByTuple",
    "SlidingRows",
    "SlidingTime",
    "SnapshotWindow",
    "Tuples",
    "Window",
    "WindowIds",
    "WindowKind",
    "duality",
]
