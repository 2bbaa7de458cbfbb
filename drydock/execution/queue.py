"""The machine's cores and memory: jobs run as far as they fit, the others wait in the order they came."""

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import datetime

from drydock.errors import FAILURE_REASON_MAX_CHARS, bounded
from drydock.execution.recovery import Heartbeat, settle
from drydock.execution.run import Run
from drydock.host.executor import Executor
from drydock.host.machines import Need
from drydock.jobs.job import Job
from drydock.jobs.states import Phase, Status
from drydock.rehearsal.spot_market import SpotMarket
from drydock.settings import Settings

log = logging.getLogger(__name__)

# How often waiting jobs are looked at without a reason: limits pass, and capacity comes back.
LOOK_S = 0.1
# How soon it looks again after an error.
PAUSE_S = 1.0
# How long beyond the grace the server waits for its jobs' threads when it ends.
CLOSING_MARGIN_S = 10.0
NO_CAPACITY = "Insufficient capacity error from EC2 while launching instances, retrying!"


class Yard:
    """Runs jobs. One for each server; safe to be called from any thread.

    Args:
        settings: The server's settings.
        executor: What runs the jobs' hosts.
        market: The spot market.
        heartbeat: Beaten while the yard is open.
    """

    def __init__(self, settings: Settings, executor: Executor, market: SpotMarket, heartbeat: Heartbeat) -> None:
        self.settings, self.executor, self.market = settings, executor, market
        self._heartbeat = heartbeat
        self._all = Need(settings.cores, settings.memory_mb)
        self._free = self._all
        self._changed = threading.Condition()
        self._waiting: list[Job] = []
        self._running: dict[Job, threading.Thread] = {}
        self._closing = threading.Event()
        self._clock = threading.Thread(target=self._tend, name="yard", daemon=True)

    def open(self) -> None:
        """Jobs are started from now on."""
        self._clock.start()

    def submit(self, job: Job) -> None:
        """The job runs, or waits in Starting for its turn."""
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()

    def resume(self, job: Job, last_alive: datetime) -> None:
        """A job that had not ended when an earlier server did goes on as far as it can."""
        ending = settle(job, last_alive)
        if ending is not None:
            with self._changed:
                self._begin(job, lambda run: run.finish(ending))
        elif not job.status.ended:
            self.submit(job)

    def stop(self, job: Job) -> Status:
        """The job is being stopped; one that was waiting has ended.

        Returns:
            The status from before: a job that had ended is left as it was.
        """
        with self._changed:
            before = job.request_stop()
            self._drop_ended()
            return before

    def load(self) -> dict[str, int]:
        """Return the cores and MiB in all, those that are free, and the number of running and waiting jobs."""
        with self._changed:
            return {
                "cores": self._all.cores,
                "cores_free": self._free.cores,
                "memory_mb": self._all.memory_mb,
                "memory_mb_free": self._free.memory_mb,
                "running": len(self._running),
                "waiting": len(self._waiting),
            }

    def close(self) -> None:
        """No job runs, and none will; the hosts got SIGTERM and, after shutdown_grace_s, SIGKILL."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
            threads = list(self._running.values())
        deadline = time.monotonic() + self.settings.shutdown_grace_s + CLOSING_MARGIN_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _tend(self) -> None:
        while not self._closing.is_set():
            pause_s = LOOK_S
            with self._changed:
                try:
                    self._look()
                except Exception:  # without this thread no job would ever start again
                    log.exception("yard: internal error")
                    pause_s = PAUSE_S
                self._changed.wait(pause_s)

    def _look(self) -> None:
        if self._closing.is_set():  # asked under the lock: close has counted the threads that it waits for
            return
        self._drop_ended()
        self._start_what_fits()
        self._heartbeat.beat()

    def _drop_ended(self) -> None:
        for job in list(self._waiting):
            if job.status.ended:
                job.save()  # its end could not be stored
            elif job.stop_requested.is_set():
                job.complete()
            elif job.wait_left_s <= 0:
                job.end(Status.STOPPED, Phase.MAX_WAIT_EXCEEDED)
            if job.status.ended:
                self._waiting.remove(job)

    def _start_what_fits(self) -> None:
        for job in list(self._waiting):
            if not self.market.has_capacity(job):  # such a job keeps nobody from starting
                if job.phase is Phase.STARTING:
                    job.enter(Phase.STARTING, NO_CAPACITY)
                continue
            if not self._need(job).fits(self._free):
                if job.phase is Phase.STARTING:
                    job.enter(Phase.STARTING, "Waiting for cores and memory of this machine")
                return
            job.enter(Phase.STARTING, "Launching requested ML instances")
            self._waiting.remove(job)
            self._begin(job, Run.__call__)

    def _begin(self, job: Job, act: Callable[[Run], None]) -> None:
        self._free -= self._need(job)
        thread = threading.Thread(target=self._run, args=(job, act), name=job.name, daemon=True)
        self._running[job] = thread
        thread.start()

    def _run(self, job: Job, act: Callable[[Run], None]) -> None:
        settled = False
        try:
            act(Run(job, self.executor, self.settings, self.market, self._closing))
            settled = job.status.ended
        except Exception as error:  # a job without an end would keep its clients waiting for ever
            log.exception("job %s: internal error", job.name)
            reason = f"InternalServerError: {type(error).__name__}: {error}"
            with contextlib.suppress(sqlite3.Error):  # no room on the disk: it is stored as soon as there is
                job.end(Status.FAILED, Phase.FAILED, bounded(reason, FAILURE_REASON_MAX_CHARS))
        finally:
            with self._changed:
                del self._running[job]
                self._free += self._need(job)
                if not settled:
                    self._waiting.append(job)
                self._changed.notify()

    def _need(self, job: Job) -> Need:
        return (job.instance * job.host_count).within(self._all)
