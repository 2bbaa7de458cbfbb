"""The retraining loop: whether drift may start a training now, and the results of the trainings that it started.

The guards, events and transitions are pure: a decision depends on the request, the history and the policy only. Time is
the `as_of` of the request, so a replay of last year gives the decisions of last year. Only whether a training
still runs depends on wall-clock time. `journal` and `facts` read and write; `study` and `report` compare the loop with
other strategies. Importing this package loads nothing heavy.
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
