"""One run of a job on this machine: download, train, upload; until it ends or is interrupted."""

import contextlib
import logging
import shutil
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from drydock.errors import JobFailed
from drydock.execution.supervise import Ending, Supervision, Why
from drydock.host.executor import Executor, HostPlan, Running
from drydock.host.tree import CONTAINER_BASE, HostTree, host_names
from drydock.jobs.failure import ending_of
from drydock.jobs.job import Job
from drydock.jobs.kinds import work_of
from drydock.jobs.states import Phase, Status
from drydock.rehearsal.spot_market import SpotMarket
from drydock.settings import Settings
from drydock.transfer.log_writer import LogStream, LogTail

log = logging.getLogger(__name__)


class Run:
    """One run of one job, to be called once, in a thread of its own.

    Args:
        job: The job's record. After the run it has ended, or is Interrupted and waits for its next run.
        executor: What runs its hosts.
        settings: The server's settings.
        market: The spot market.
        closing: Set when the server ends.
    """

    def __init__(
        self, job: Job, executor: Executor, settings: Settings, market: SpotMarket, closing: threading.Event
    ) -> None:
        self._job, self._executor, self._settings = job, executor, settings
        self._market, self._closing = market, closing
        self._trees = trees_of(job, settings.data)
        self._work = work_of(job)(job, self._trees, executor, settings)
        epoch = int(time.time())
        self._tails = [
            LogTail(
                tree.log,
                LogStream(job.account_id, job.region, f"{job.name}/{tree.host}-{epoch}", job.log_group),
                self._work.read,
            )
            for tree in self._trees
        ]

    def __call__(self) -> None:
        """The job runs until it has ended, or is interrupted."""
        self._guarded(self._live)

    def finish(self, ending: Ending) -> None:
        """A job whose command had ended when the server was killed has ended: what it left in its trees is uploaded."""
        self._guarded(lambda: self._end(ending, []))

    def _guarded(self, act: Callable[[], None]) -> None:
        job = self._job
        try:
            act()
        except JobFailed as error:
            self._tidy_up()
            job.end(Status.FAILED, Phase.FAILED, error.reason)
        finally:
            self._tidy_up()
        log.info("job %s: %s, %s", job.name, job.status, job.phase)

    def _tidy_up(self) -> None:
        # A job that has filled the disk must not keep the server, or other jobs, from writing: its volume goes with it.
        full = shutil.disk_usage(self._settings.data).free < KEPT_FREE_BYTES
        for tree in self._trees:
            if full:
                log.warning("job %s: the disk is full, its folder %s is deleted", self._job.name, tree.root)
                tree.drop()
            tree.drop_input()

    def _live(self) -> None:
        job, work = self._job, self._work
        if job.advance(Phase.DOWNLOADING):
            try:
                work.create()
            except OSError as error:
                raise JobFailed(f"ClientError: Data download failed: job folder: {error}") from error
            work.download()
            commands = [self._command(tree) for tree in self._trees]
            if self._closing.is_set() and job.advance(Phase.STARTING):
                return None  # nothing of its own had run: the next server begins anew
            if job.advance(Phase.TRAINING):
                return self._end(self._train(commands), commands[0])
        job.complete()

    def _command(self, tree: HostTree) -> list[str]:
        command = self._work.command(tree)
        base = self._executor.base(tree.root)
        # Where the tree cannot be at /opt/ml, the paths that the request names are read as below it.
        return [part.replace(f"{CONTAINER_BASE}/", f"{base}/") for part in command]

    def _train(self, commands: Sequence[Sequence[str]]) -> Ending:
        hosts: list[Running] = []
        try:
            for tree, command in zip(self._trees, commands, strict=True):
                hosts.append(self._executor.start(self._plan(tree, command)))
            log.info("job %s: runs as process %s", self._job.name, ", ".join(str(host.pid) for host in hosts))
            supervision = Supervision(self._job, hosts, self._settings, self._market, self._closing)
            ending = supervision(self._tick)
        finally:
            _end_all(hosts)
            for tail in self._tails:
                tail.drain(final=True)
        if ending.why is Why.INTERRUPTION and supervision.notice_s > 0:
            self._work.leave()
        return ending

    def _plan(self, tree: HostTree, command: Sequence[str]) -> HostPlan:
        job, settings = self._job, self._settings
        block = _address_block(job)
        return HostPlan(
            name=job.name,
            host=tree.host,
            addresses={one.host: f"127.{block}.{number}" for number, one in enumerate(self._trees, 1)},
            root=tree.root,
            command=command,
            arguments=job.arguments,
            env=self._work.environment(tree),
            cwd=self._work.cwd(tree),
            log=tree.log,
            note=tree.note,
            image=job.image,
            cores=min(job.instance.cores, settings.cores),
            memory_mb=min(job.instance.memory_mb, settings.memory_mb),
        )

    def _tick(self) -> None:
        for tail in self._tails:
            tail.drain()
        self._work.tick()

    def _end(self, ending: Ending, command: Sequence[str]) -> None:
        job = self._job
        if ending.why is Why.INTERRUPTION:
            return job.enter(Phase.INTERRUPTED)
        if ending.why is Why.SHUTDOWN:
            return self._shut_down()
        job.exited(ending.why, ending.exit_code)
        job.enter(Phase.UPLOADING)
        if ending.why is Why.EXIT and ending.exit_code != 0:
            lines = next((list(tail.last_lines) for tail in self._tails if tail.last_lines), None)
            lines = lines or [ending_of(self._trees[0].log)]  # what an earlier server read is in the file only
            raise JobFailed(self._work.fail(ending.exit_code, lines, command))
        for line in self._work.deliver():
            self._tails[0].note(line)
        if ending.why in LIMITS:
            job.end(Status.STOPPED, LIMITS[ending.why])
        job.complete()

    def _shut_down(self) -> None:
        if not self._job.spot:
            raise JobFailed("InternalServerError: drydock was shut down while the job ran")
        self._work.leave()
        self._job.enter(Phase.INTERRUPTED)


def _end_all(hosts: Sequence[Running]) -> None:
    """None of the hosts is alive, as far as each can be ended."""
    for host in hosts:
        with contextlib.suppress(JobFailed):  # the engine is gone: the others are still to be ended
            host.finish()


# Room for the server's own records, and for what other jobs write in a moment.
KEPT_FREE_BYTES = 16 << 20
LIMITS = {Why.RUNTIME: Phase.MAX_RUNTIME_EXCEEDED, Why.WAIT: Phase.MAX_WAIT_EXCEEDED}


def trees_of(job: Job, data: Path) -> list[HostTree]:
    """Return the trees of a job's hosts."""
    folder = data / job.tree / job.account_id / job.region / job.name
    return [HostTree(folder / host) for host in host_names(job.host_count)]


def _address_block(job: Job) -> str:
    # Two jobs at once should not have the same addresses; 127.0 is left to everybody else.
    number = zlib.crc32(job.arn.encode()) % (254 * 254)
    return f"{number // 254 + 1}.{number % 254 + 1}"
