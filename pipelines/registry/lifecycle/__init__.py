"""Record the events of a model's versions, and set MLflow's aliases by them.

The events in the lake decide which version is champion. MLflow's aliases only copy this decision, because MLflow keeps
no history of an alias, and if two processes set it, the last one wins. A commit to an Iceberg table names the snapshot
that it is based on, and is refused if another commit came first. So a change of the champion is first committed to the
table `lifecycle_events`. Then the alias is set to the version that the events name, and the events are read again. This
is repeated until alias and events agree.
"""

from pipelines.registry.lifecycle.aliases import adopt_alias, get_champion, read_champion_alias, sync_aliases
from pipelines.registry.lifecycle.champions import find_champion_as_of
from pipelines.registry.lifecycle.events import Event, Kind, State, compute_state
from pipelines.registry.lifecycle.journal import Journal
from pipelines.registry.lifecycle.reconciliation import reconcile
from pipelines.registry.lifecycle.recording import (
    record_decision,
    record_registration,
    record_retirement,
    record_verdict,
)

__all__ = [
    "Event",
    "Journal",
    "Kind",
    "State",
    "adopt_alias",
    "compute_state",
    "find_champion_as_of",
    "get_champion",
    "read_champion_alias",
    "reconcile",
    "record_decision",
    "record_registration",
    "record_retirement",
    "record_verdict",
    "sync_aliases",
]
