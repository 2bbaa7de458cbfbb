"""The retraining loop: whether drift may start a training now, and the results of the trainings that it started.

The guards, events and transitions are pure: a decision depends on the request, the history and the policy only. The
guards use the `as_of` of the request as the time, so a replay of last year gives the decisions of last year. Only the
check whether a training still runs uses wall-clock time. `journal` and `facts` read and write; `study` and `report`
compare the loop with other strategies. Importing this package loads no large library.
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
