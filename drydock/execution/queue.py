"""The queue of jobs: run as many as fit into the machine's cores and memory, in the order in which they were added."""

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import datetime

from drydock.errors import FAILURE_REASON_MAX_CHARS, truncate
from drydock.execution.exits import read_command_exit
from drydock.execution.job_logs import JobLogs
from drydock.execution.recovery import Heartbeat, recover_job
from drydock.execution.run import Run, list_host_trees
from drydock.faults.spot_market import SpotMarket
from drydock.host.executor import Executor
from drydock.host.machines import MachineSize
from drydock.jobs.job import Job
from drydock.jobs.states import Phase, Status
from drydock.settings import Settings

log = logging.getLogger(__name__)

# Seconds between two checks of the waiting jobs: the waiting time of a job may have passed, or capacity may be back.
CHECK_S = 0.1
# Seconds until the next check after an unexpected error.
ERROR_PAUSE_S = 1.0
# Seconds that the server waits for its jobs' threads when it shuts down, in addition to the grace period.
SHUTDOWN_MARGIN_S = 10.0
NO_CAPACITY_MESSAGE = "Insufficient capacity error from EC2 while launching instances, retrying!"


class JobQueue:
    """Runs the jobs that fit into the machine; the others wait. A server has one queue. Safe for several threads.

    Args:
        settings: The server's settings.
        executor: Runs the jobs' hosts.
        market: The spot market.
        heartbeat: Written while the queue is running.
        logs: Moves the jobs' logs to CloudWatch Logs.
    """

    def __init__(
        self, settings: Settings, executor: Executor, market: SpotMarket, heartbeat: Heartbeat, logs: JobLogs
    ) -> None:
        self.settings, self.executor, self.market = settings, executor, market
        self._heartbeat, self._logs = heartbeat, logs
        self._total_size = MachineSize(settings.cores, settings.memory_mib)
        self._free_size = self._total_size
        self._condition = threading.Condition()
        self._waiting_jobs: list[Job] = []
        self._threads: dict[Job, threading.Thread] = {}
        self._shutdown = threading.Event()
        self._scheduler = threading.Thread(target=self._run_scheduler, name="queue", daemon=True)

    def start(self) -> None:
        """Begin to run jobs."""
        self._logs.start()
        self._scheduler.start()

    def submit(self, job: Job) -> None:
        """Add a job to the queue. The job waits for its turn in the phase Starting or Interrupted."""
        with self._condition:
            self._waiting_jobs.append(job)
            self._condition.notify()

    def resume_logs(self, find_job: Callable[..., Job | None]) -> None:
        """Resume the logs of an earlier server's jobs. Call this before `resume`.

        Args:
            find_job: Returns a job by its kind, account, region and name; None if it does not exist any more.
        """
        self._logs.resume(lambda job: list_host_trees(job, self.settings.data), find_job)

    def resume(self, job: Job, last_alive_at: datetime) -> None:
        """Resume a job of an earlier server, as far as possible.

        Args:
            job: The job, which has not ended.
            last_alive_at: When the earlier server was last alive.
        """
        command_exit = read_command_exit(list_host_trees(job, self.settings.data))
        run_end = recover_job(job, last_alive_at, command_exit)
        if run_end is not None:
            with self._condition:
                self._start_thread(job, lambda run: run.finish(run_end))
            return
        self._logs.end(self._logs.find_forwarders(job))
        if not job.status.is_final:
            self.submit(job)

    def stop(self, job: Job) -> Status:
        """Stop a job: a waiting job ends now, a running one soon. A job that has ended is not changed.

        Returns:
            The job's status before the call.
        """
        with self._condition:
            status_before = job.request_stop()
            self._end_waiting_jobs()
            return status_before

    def describe_load(self) -> dict[str, int]:
        """Return the cores and memory (MiB), in total and free, and the numbers of running and waiting jobs."""
        with self._condition:
            return {
                "cores": self._total_size.cores,
                "cores_free": self._free_size.cores,
                "memory_mib": self._total_size.memory_mib,
                "memory_mib_free": self._free_size.memory_mib,
                "running": len(self._threads),
                "waiting": len(self._waiting_jobs),
            }

    def close(self) -> None:
        """End all runs of jobs, and start no more. Hosts get SIGTERM, and SIGKILL after shutdown_grace_s.

        A spot job whose command runs becomes Interrupted, and the next server resumes it. Any other job whose command
        runs fails. A job that still downloads its input is started again by the next server.
        """
        self._shutdown.set()
        with self._condition:
            self._condition.notify()
            threads = list(self._threads.values())
        deadline = time.monotonic() + self.settings.shutdown_grace_s + SHUTDOWN_MARGIN_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._logs.close()

    def _run_scheduler(self) -> None:
        while not self._shutdown.is_set():
            pause_s = CHECK_S
            with self._condition:
                try:
                    self._schedule()
                except Exception:  # without this thread no job would ever start again
                    log.exception("queue: internal error")
                    pause_s = ERROR_PAUSE_S
                self._condition.wait(pause_s)

    def _schedule(self) -> None:
        # Checked under the lock: no thread may start after `close` has listed the threads that it waits for.
        if self._shutdown.is_set():
            return
        self._end_waiting_jobs()
        self._start_jobs_that_fit()
        self._heartbeat.write_if_due()

    def _end_waiting_jobs(self) -> None:
        """End the waiting jobs that must stop or have waited too long, and remove all that have ended."""
        for job in list(self._waiting_jobs):
            if job.status.is_final:
                job.save()  # its end could not be stored when it ended
            elif job.stop_event.is_set():
                job.complete()
            elif job.remaining_wait_s <= 0:
                job.end(Status.STOPPED, Phase.MAX_WAIT_EXCEEDED)
            if job.status.is_final:
                self._waiting_jobs.remove(job)

    def _start_jobs_that_fit(self) -> None:
        for job in list(self._waiting_jobs):
            if not self.market.has_capacity(job):  # such a job does not block the jobs behind it
                if job.phase is Phase.STARTING:
                    job.enter_phase(Phase.STARTING, NO_CAPACITY_MESSAGE)
                continue
            if not self._compute_size(job).fits_in(self._free_size):
                if job.phase is Phase.STARTING:
                    job.enter_phase(Phase.STARTING, "Waiting for cores and memory of this machine")
                return
            job.enter_phase(Phase.STARTING, "Launching requested ML instances")
            self._waiting_jobs.remove(job)
            self._start_thread(job, Run.execute)

    def _start_thread(self, job: Job, action: Callable[[Run], None]) -> None:
        self._free_size -= self._compute_size(job)
        thread = threading.Thread(target=self._run_job, args=(job, action), name=job.name, daemon=True)
        self._threads[job] = thread
        thread.start()

    def _run_job(self, job: Job, action: Callable[[Run], None]) -> None:
        has_ended = False
        try:
            action(Run(job, self.executor, self.settings, self.market, self._logs, self._shutdown))
            has_ended = job.status.is_final
        except Exception as error:  # clients would wait forever for a job without an end
            log.exception("job %s: internal error", job.name)
            reason = f"InternalServerError: {type(error).__name__}: {error}"
            with contextlib.suppress(sqlite3.Error):  # the disk is full: the end is stored once there is room
                job.end(Status.FAILED, Phase.FAILED, truncate(reason, FAILURE_REASON_MAX_CHARS))
        finally:
            with self._condition:
                del self._threads[job]
                self._free_size += self._compute_size(job)
                if not has_ended:
                    self._waiting_jobs.append(job)  # interrupted, or its end is not stored yet
                self._condition.notify()

    def _compute_size(self, job: Job) -> MachineSize:
        return (job.instance_size * job.host_count).limit_to(self._total_size)
