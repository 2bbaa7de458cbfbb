"""Run the thread that starts, updates, preempts and ends the jobs of AWS Batch's queues."""

import logging
import sqlite3
import threading

from drydock.batch.jobs import FAILED, RUNNABLE, SUBMITTED, ServiceJob, StopCause
from drydock.batch.lifecycle import begin_attempt, is_waiting, stop_attempt, terminate, update_from_training_job
from drydock.batch.planner import QueuePlanner, list_capacities
from drydock.batch.queues import FRONT_JOBS, BatchQueues
from drydock.batch.records import DELETING, Queue
from drydock.batch.requests.job_queues import MISCONFIGURATION
from drydock.batch.scheduling.plans import Capacity, QueueJob, can_ever_run
from drydock.resources import Owner

log = logging.getLogger(__name__)

CHECK_S = 0.1
"""Seconds between two checks of the jobs that have not ended."""
QUEUE_DELETED_REASON, SHARE_DELETED_REASON = "The job queue was deleted.", "The quota share was deleted."
TOO_LARGE_REASON = (
    f"{MISCONFIGURATION} - The job requires more instances than the service environments of its queue can have."
)
"""The status reason of a job that no service environment of its queue is large enough for."""


class BatchScheduler:
    """Schedules the service jobs of all accounts and regions.

    Args:
        batch: The queues of AWS Batch.
    """

    def __init__(self, batch: BatchQueues) -> None:
        self._batch, self._stop_event = batch, threading.Event()
        self._thread = threading.Thread(target=self._run, name="batch", daemon=True)

    def start(self) -> None:
        """Begin to schedule all jobs that have not ended, including those of an earlier server."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread. A server that is started later continues the jobs."""
        self._stop_event.set()
        self._batch.change_event.set()
        if self._thread.is_alive():
            self._thread.join()

    def advance(self) -> bool:
        """Update all queues: start, stop and end jobs.

        Returns:
            Whether work remains: a job has not ended, a queue is being deleted, or an update failed.
        """
        is_busy = False
        for owner in {*self._batch.tables.jobs.iterate_owners(), *self._batch.tables.queues.iterate_owners()}:
            try:
                with self._batch.lock:
                    is_busy |= self._advance_owner(owner)
            except sqlite3.Error as error:  # such as a full disk: the next check tries again
                log.error("queues of %s: cannot be stored: %s", owner.account_id, error)
                is_busy = True
            except Exception:  # the queues of the other owners must advance
                log.exception("queues of %s: internal error", owner.account_id)
                is_busy = True
        return is_busy

    def _run(self) -> None:
        while not self._stop_event.is_set():
            self._batch.change_event.clear()
            if self._stop_event.is_set():  # `close` may have set both events just before `change_event` was cleared
                return
            if self.advance():
                # Not a wait for `change_event`: `advance` sets it whenever it stores a job, so there would be no pause.
                self._stop_event.wait(CHECK_S)
            else:
                self._batch.change_event.wait()

    def _advance_owner(self, owner: Owner) -> bool:
        batch = self._batch
        for job in batch.tables.jobs.list_all(owner):
            if not job.is_final:
                self._update_job(owner, job)
        queues = batch.tables.queues.list_all(owner)
        self._delete_queues_and_shares(owner, queues)
        capacities = list_capacities(batch, owner)
        # As AWS documents it: queues with a higher priority are evaluated first.
        for queue in sorted(batch.tables.queues.list_all(owner), key=lambda item: -item.priority):
            self._advance_queue(owner, queue, capacities)
        return any(not job.is_final for job in batch.tables.jobs.list_all(owner)) or any(
            queue.status == DELETING for queue in queues
        )

    def _update_job(self, owner: Owner, job: ServiceJob) -> None:
        if job.status == SUBMITTED:
            job.status = RUNNABLE
            self._batch.save_job(owner, job)
        try:
            update_from_training_job(self._batch, owner, job)
        except sqlite3.Error:
            raise
        except Exception as error:  # clients would wait forever for a job without an end
            log.exception("service job %s: internal error", job.name)
            job.status, job.current_attempt = FAILED, None
            job.status_reason, job.stopped_ms = f"{type(error).__name__}: {error}", self._batch.now_ms
            self._batch.save_job(owner, job)

    def _advance_queue(self, owner: Owner, queue: Queue, capacities: dict[str, Capacity]) -> None:
        batch = self._batch
        jobs = {job.id: job for job in batch.tables.list_jobs(owner, queue)}
        if all(job.is_final for job in jobs.values()):
            batch.positions.pop(queue.arn, None)
            return
        planner = QueuePlanner(batch, owner, queue, list(jobs.values()))
        plan = planner.plan(capacities)
        for start in plan.starts:
            begin_attempt(batch, owner, jobs[start.job.id], start.environment)
        for item in plan.preemptions:
            stop_attempt(batch, owner, jobs[item.job.id], StopCause.PREEMPTED, item.reason)
        queue_capacities = [capacities[arn] for arn in queue.environments if arn in capacities]
        for queue_job in planner.waiting:
            self._update_misconfiguration_reason(owner, jobs[queue_job.id], queue_job, queue_capacities)
        order = [queue_job for queue_job in planner.sort_waiting() if is_waiting(jobs[queue_job.id])]
        self._store_positions(queue, order[:FRONT_JOBS])
        if order:
            self._apply_time_limits(owner, queue, jobs[order[0].id])

    def _update_misconfiguration_reason(
        self, owner: Owner, job: ServiceJob, queue_job: QueueJob, capacities: list[Capacity]
    ) -> None:
        """Set the status reason of a waiting job that no service environment can run. Delete the reason if one can."""
        is_too_large = is_waiting(job) and not can_ever_run(queue_job, capacities)
        if is_too_large != job.status_reason.startswith(MISCONFIGURATION):
            job.status_reason = TOO_LARGE_REASON if is_too_large else ""
            self._batch.save_job(owner, job)

    def _store_positions(self, queue: Queue, order: list[QueueJob]) -> None:
        """Store the position of each job in `order`, and since when the job has this position."""
        earlier_positions, now_ms = self._batch.positions.get(queue.arn, {}), self._batch.now_ms
        positions: dict[str, tuple[int, int]] = {}
        for position, queue_job in enumerate(order):
            earlier = earlier_positions.get(queue_job.id)
            positions[queue_job.id] = earlier if earlier and earlier[0] == position else (position, now_ms)
        self._batch.positions[queue.arn] = positions

    def _apply_time_limits(self, owner: Owner, queue: Queue, job: ServiceJob) -> None:
        """End the first waiting job of a queue if jobStateTimeLimitActions requires that.

        An action applies if the job's status reason begins with the action's reason, and the job has been the first one
        for at least maxTimeSeconds.
        """
        _, since_ms = self._batch.positions[queue.arn][job.id]
        for action in queue.limit_actions:
            has_reason = job.status_reason.startswith(action["reason"])
            if has_reason and self._batch.now_ms - since_ms >= action["maxTimeSeconds"] * 1_000:
                return terminate(self._batch, owner, job, f"Terminated by JobStateTimeLimit action: {action['reason']}")

    def _delete_queues_and_shares(self, owner: Owner, queues: list[Queue]) -> None:
        """Terminate the jobs of queues and shares whose status is DELETING. Delete those whose jobs have all ended."""
        tables = self._batch.tables
        for queue in queues:
            for share in tables.list_quota_shares(owner, queue):
                if DELETING in (share.status, queue.status):
                    jobs = [
                        job for job in tables.list_jobs(owner, queue) if job.request.get("quotaShareName") == share.name
                    ]
                    if self._terminate_jobs(owner, jobs, SHARE_DELETED_REASON):
                        tables.quota_shares.delete(owner, share)
            if queue.status == DELETING and self._terminate_jobs(
                owner, tables.list_jobs(owner, queue), QUEUE_DELETED_REASON
            ):
                tables.queues.delete(owner, queue)

    def _terminate_jobs(self, owner: Owner, jobs: list[ServiceJob], reason: str) -> bool:
        """Terminate jobs. Return whether all of them have ended."""
        for job in jobs:
            if not job.is_terminated:
                terminate(self._batch, owner, job, reason)
        return all(job.is_final for job in jobs)
