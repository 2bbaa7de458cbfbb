"""Decide whether drift may start a training now, and record the trainings that were started or held back.

The modules `guards`, `events` and `transitions` are pure: a decision depends on the request, the history and the policy
only. The guards treat the `as_of` of the request as the present, so a replay of last year gives the decisions of last
year. Only the check whether a training still runs uses wall-clock time. `journal` reads and writes the history, `facts`
collects what the guards need, `study` and `report` compare the loop with other strategies. Importing this package loads
no large library.
"""

from pipelines.loop.events import Event, History, Kind, Training, Trigger, build_history
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
    "build_history",
    "combine_hold_backs",
]
