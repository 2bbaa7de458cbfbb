"""What becomes of the jobs that had not ended when their server did."""

import time
from datetime import datetime

from drydock.execution.supervise import Ending, Why
from drydock.jobs.job import Job
from drydock.jobs.record import now
from drydock.jobs.states import Phase, Status
from drydock.store import Store

LOST = "InternalServerError: drydock ended while the job ran, and only spot jobs go on after that"
BEAT_S = 1.0
TERMINATED = 143


class Heartbeat:
    """When the server was last alive: what ran then, ran no longer."""

    def __init__(self, store: Store) -> None:
        self._store, self._due = store, 0.0

    def beat(self) -> None:
        """The server is alive; written once a second, however often it is called."""
        if time.monotonic() >= self._due:
            with self._store.write() as db:
                db.execute("INSERT OR REPLACE INTO heartbeat VALUES (1, ?)", (now().isoformat(),))
            self._due = time.monotonic() + BEAT_S

    def last(self) -> datetime:
        """Return the last beat of the server before; now where there was none."""
        rows = self._store.read("SELECT moment FROM heartbeat")
        return datetime.fromisoformat(rows[0][0]) if rows else now()


def settle(job: Job, last_alive: datetime) -> Ending | None:
    """The job has ended, or waits for its next run; else what is left to do is to carry out what it made.

    Spot jobs that ran are interrupted; others have failed. None of the job's processes is alive.

    Returns:
        How the job's command ended, where its output is still to be uploaded.
    """
    if job.record.exited is not None:
        why, code = job.record.exited
        return Ending(Why(why), code)
    if job.status is Status.STOPPING:
        if job.phase is Phase.STOPPING and job.runs:
            return Ending(Why.STOP, TERMINATED)
        job.complete()
    elif job.phase in (Phase.STARTING, Phase.INTERRUPTED):
        pass  # it waited
    elif job.spot:
        job.enter(Phase.INTERRUPTED, since=max(last_alive, job.record.transitions[-1].start))
    elif job.phase is Phase.DOWNLOADING:
        job.enter(Phase.STARTING)  # nothing of its own had run
    else:
        job.end(Status.FAILED, Phase.FAILED, LOST)
    return None
