"""Recover the jobs that had not ended when the earlier drydock server ended."""

import time
from datetime import datetime

from drydock.execution.exits import CommandExit
from drydock.execution.supervise import EXIT_CODE_SIGTERM, Cause, RunEnd
from drydock.jobs.job import Job
from drydock.jobs.record import get_now
from drydock.jobs.states import Phase, Status
from drydock.store import Store

LOST_JOB_REASON = "InternalServerError: drydock ended while the job ran, and only spot jobs resume after that"
# Seconds between two writes of the heartbeat.
HEARTBEAT_S = 1.0


class Heartbeat:
    """The time when the server was last alive. No job is billed for the time between a crash and the next start.

    Args:
        store: Storage of the time.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._due_at = store, 0.0

    def write_if_due(self) -> None:
        """Store the current time, at most once a second."""
        if time.monotonic() >= self._due_at:
            with self._store.transaction() as db:
                db.execute("INSERT OR REPLACE INTO heartbeat VALUES (1, ?)", (get_now().isoformat(),))
            self._due_at = time.monotonic() + HEARTBEAT_S

    def read_last(self) -> datetime:
        """Return when the earlier server was last alive; the current time if there was none."""
        rows = self._store.query("SELECT moment FROM heartbeat")
        return datetime.fromisoformat(rows[0][0]) if rows else get_now()


def recover_job(job: Job, last_alive_at: datetime, command_exit: CommandExit | None = None) -> RunEnd | None:
    """Recover a job that had not ended when the earlier server ended. All processes of the job must have ended.

    A spot job that was running becomes Interrupted. A job that is not a spot job fails if its command was running; if
    the job was still downloading its input, it waits for its start again. A job that was being stopped ends as Stopped.
    If the command has ended, by a stop or by itself, the job does not run again: only its results must still be
    uploaded.

    Args:
        job: The job, which has not ended.
        last_alive_at: When the earlier server was last alive.
        command_exit: How the command ended, if it ended by itself while no server ran; None otherwise.

    Returns:
        How the job's command ended, if its results must still be uploaded. None if the job has ended now, or waits for
        its next run.
    """
    if job.record.command_end is not None:
        cause, exit_code = job.record.command_end
        return RunEnd(Cause(cause), exit_code)
    if job.status is Status.STOPPING:
        if job.phase is Phase.STOPPING and job.run_count:
            _set_phase_end(job, last_alive_at)
            return RunEnd(Cause.STOP, EXIT_CODE_SIGTERM)
        job.complete()
    elif job.phase in (Phase.STARTING, Phase.INTERRUPTED):
        pass  # the job was waiting, and waits again
    elif job.phase is Phase.TRAINING and command_exit is not None:
        return _set_command_end(job, command_exit)
    elif job.is_spot:
        job.enter_phase(Phase.INTERRUPTED, since=max(last_alive_at, job.record.transitions[-1].start))
    elif job.phase is Phase.DOWNLOADING:
        job.enter_phase(Phase.STARTING)  # its command had not started
    else:
        job.end(Status.FAILED, Phase.FAILED, LOST_JOB_REASON, ended_at=last_alive_at)
    return None


def _set_command_end(job: Job, command_exit: CommandExit) -> RunEnd:
    """Set when the command of a running job ended, and return how the run ended."""
    _set_phase_end(job, command_exit.ended_at)
    # The earlier server would have stopped the command at this limit.
    return RunEnd(Cause.RUNTIME if job.remaining_runtime_s < 0 else Cause.EXIT, command_exit.exit_code)


def _set_phase_end(job: Job, end: datetime) -> None:
    """Set when the present phase ended, but not before its start, and not in the future."""
    job.set_phase_end(min(max(end, job.record.transitions[-1].start), get_now()))
