"""The guards of the loop: whether drift may start a training now, and what became of those that it started.

Pure but for the journal and the facts: an answer is a function of the request, what happened before, and the policy.
All clocks are the requests' `as_of`, not this machine's, so a replay of last year is answered as the year itself was;
only whether a training still runs is asked of the clock on the wall. Importing this loads nothing heavy.
"""

from pipelines.loop.events import Event, History, Kind, Training, Trigger, fold
from pipelines.loop.guards import GUARDS, Held, Request, held
from pipelines.loop.policy import Policy

__all__ = ["GUARDS", "Event", "Held", "History", "Kind", "Policy", "Request", "Training", "Trigger", "fold", "held"]
