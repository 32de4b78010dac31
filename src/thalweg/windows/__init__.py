"""Window kinds: how the time axis is divided.

window          what every kind states about itself

The temporal core, windows of events with lifetimes (an event belongs to a snapshot or hopping
window when their times overlap, to a session by its start, to a count window by start or end):

kinds           hopping, tumbling, sessions, snapshots
counts          windows of N consecutive starts or ends

The WID framework, windows of tuples, whose time is the start of an event:

framework       three functions that a kind is, and what they must know about other tuples
sliding         sliding over time or rows, landmark
by_tuple        a window at every tuple, or at every n-th
calendar        days, weeks, months of a time zone

specification   from what a query says (sizes, hops, `rows()`, `rank()`) to numbers
"""

from thalweg.windows.by_tuple import SlideByTuple
from thalweg.windows.counts import CountWindow
from thalweg.windows.framework import Category, Membership, Tuples, WindowIds, WindowKind, duality
from thalweg.windows.kinds import HoppingWindow, SessionWindow, SnapshotWindow
from thalweg.windows.sliding import LandmarkTime, SlidingRows, SlidingTime
from thalweg.windows.window import AnyWindow, Window

__all__ = [
    "AnyWindow",
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
