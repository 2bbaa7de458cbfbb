"""Decide whether a requested training may start, and record the trainings that were started or held back.

The modules `guards`, `events` and `transitions` are pure: a decision depends on the request, the history and the policy
only. The guards compare the `as_of` of trainings, so they also work in a replay of past days. Wall-clock time decides
only whether a training still runs, and which month's budget pays. `journal` reads and writes the history, `facts`
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
