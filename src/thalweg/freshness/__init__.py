"""Freshness under overload: queues that keep the newest value of each key and schedule keys.

When updates arrive faster than they can be served, a queue of updates keeps only the newest value
of each key and decides which key is served next, so that answers lag the input as little as
possible. It stands before the ingress of a source: what leaves the queue is the source's table.
"""

from thalweg.freshness.cuts import Cut
from thalweg.freshness.durable_queue import DurableQueue
from thalweg.freshness.queue_status import Admission, QueueStatus
from thalweg.freshness.receiver import Receiver
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.freshness.receiver_process import ensure_receiver, stop_receiver
from thalweg.freshness.receiver_settings import ReceiverSettings
from thalweg.freshness.runner import FreshRunner
from thalweg.freshness.schedules import SCHEDULES
from thalweg.freshness.shared_runner import SharedRunner
from thalweg.freshness.update_queue import UpdateQueue

__all__ = [
    "SCHEDULES",
    "Admission",
    "Cut",
    "DurableQueue",
    "FreshRunner",
    "QueueStatus",
    "Receiver",
    "ReceiverClient",
    "ReceiverSettings",
    "SharedRunner",
    "UpdateQueue",
    "ensure_receiver",
    "stop_receiver",
]
