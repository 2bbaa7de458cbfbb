"""The retraining loop: whether drift may start a training now, and the result of the trainings that it started.

Only `journal` and `facts` read and write; all other modules are pure. An answer depends on the request, the history and
the policy. Time is the `as_of` of a request, so a replay of last year gets the same answers as the year itself did.
Only whether a training still runs depends on wall-clock time. Importing this package loads nothing heavy.
"""

from pipelines.loop.events import Event, History, Kind, Training, Trigger, fold
from pipelines.loop.guards import GUARDS, HoldBack, Request, combine_hold_backs
from pipelines.loop.policy import Policy

__all__ = [
    "GUARDS",
    "Event",
    "History",
    "HoldBack",
    "Kind",
    "Policy",
    "Request",
    "Training",
    "Trigger",
    "combine_hold_backs",
    "fold",
]
