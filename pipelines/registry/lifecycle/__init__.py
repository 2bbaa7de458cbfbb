"""The registry's memory: what happened to a model's versions, and who is champion by it.

The events in the lake decide, MLflow's aliases follow. MLflow moves an alias without a trace, and of two writers the
last one wins; a commit to an Iceberg table names the snapshot that it follows, and is refused where another came first.
So a change of the champion is a commit to `lifecycle_events` first, and the alias is set to what the events say, and
looked at again, until both agree.
"""

from pipelines.registry.lifecycle.aliases import begin, crowned, reconcile, settle, standing_of
from pipelines.registry.lifecycle.events import Event, Kind, State, fold
from pipelines.registry.lifecycle.journal import Journal
from pipelines.registry.lifecycle.notes import decided, judged, registered, retired

__all__ = [
    "Event",
    "Journal",
    "Kind",
    "State",
    "begin",
    "crowned",
    "decided",
    "fold",
    "judged",
    "reconcile",
    "registered",
    "retired",
    "settle",
    "standing_of",
]
