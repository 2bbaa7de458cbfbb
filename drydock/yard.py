"""The machine's slots: at most so many jobs at once, the others in the order they came."""

import collections
import logging
import threading
import time

from drydock.job import TrainingJob
from drydock.process import kill_left_over
from drydock.run import Run
from drydock.settings import Settings
from drydock.states import Phase, Status
from drydock.tree import JobTree

log = logging.getLogger(__name__)

# How long beyond the grace the server waits for its jobs' threads when it ends.
CLOSING_MARGIN_S = 10.0


class Yard:
    """Runs jobs. One for each server; safe to be called from any thread.

    Args:
        settings: The server's settings.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._queue: collections.deque[TrainingJob] = collections.deque()
        self._running: dict[TrainingJob, threading.Thread] = {}
        self._closing = threading.Event()

    def submit(self, job: TrainingJob) -> None:
        """The job runs, or waits in Starting for its turn."""
        with self._lock:
            self._queue.append(job)
            self._start_next()
            if job in self._queue:
                job.enter(Phase.STARTING, f"Waiting for one of {self.settings.slots} slots of this machine")

    def stop(self, job: TrainingJob) -> Status:
        """The job is being stopped; one that was waiting has ended without having run.

        Returns:
            The status from before: a job that had ended is left as it was.
        """
        with self._lock:
            before = job.request_stop()
            if job in self._queue:
                self._queue.remove(job)
                job.complete()
            return before

    def load(self) -> dict[str, int]:
        """Return the number of slots, of running and of waiting jobs."""
        with self._lock:
            return {"slots": self.settings.slots, "running": len(self._running), "waiting": len(self._queue)}

    def clean_up(self) -> None:
        """No process of a server that was killed on this data folder is alive."""
        for note in self.settings.data.glob("jobs/*/*/*/process.json"):
            if kill_left_over(note):
                log.warning("killed what an earlier server left running: %s", note.parent.name)

    def close(self) -> None:
        """No job runs, and none will; the groups got SIGTERM and, after shutdown_grace_s, SIGKILL."""
        self._closing.set()
        with self._lock:
            threads = list(self._running.values())
        deadline = time.monotonic() + self.settings.shutdown_grace_s + CLOSING_MARGIN_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self.clean_up()  # for a thread that hung in a transfer

    def _start_next(self) -> None:
        while self._queue and len(self._running) < self.settings.slots and not self._closing.is_set():
            job = self._queue.popleft()
            job.enter(Phase.STARTING)
            thread = threading.Thread(target=self._run, args=(job,), name=job.training_job_name, daemon=True)
            self._running[job] = thread
            thread.start()

    def _run(self, job: TrainingJob) -> None:
        try:
            Run(job, self._tree(job), self.settings, self._closing)()
        finally:
            with self._lock:
                del self._running[job]
                self._start_next()

    def _tree(self, job: TrainingJob) -> JobTree:
        return JobTree(self.settings.data / "jobs" / job.account_id / job.region / job.training_job_name)
