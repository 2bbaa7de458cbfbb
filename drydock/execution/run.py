"""Run a job once on this machine: download its input, run its command, and upload its results."""

import contextlib
import logging
import shutil
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from drydock.errors import RunFailed
from drydock.execution.exits import find_first_failure
from drydock.execution.job_logs import JobLogs
from drydock.execution.supervise import Cause, RunEnd, Supervision
from drydock.faults.spot_market import SpotMarket
from drydock.host.addresses import build_name_variables, choose_addresses
from drydock.host.executor import Executor, HostPlan, RunningHost
from drydock.host.tree import CONTAINER_BASE, HostTree, list_host_names
from drydock.jobs.failure import read_log_end
from drydock.jobs.job import Job
from drydock.jobs.kinds import get_work_class
from drydock.jobs.record import get_now
from drydock.jobs.states import Phase, Status
from drydock.jobs.usage_sampler import record_usage
from drydock.settings import Settings

log = logging.getLogger(__name__)

# With less free space, the server might fail to store its records, so a job's folder is deleted to make room.
MIN_FREE_BYTES = 16 << 20
# Seconds for which the end of a job waits for a long log. The remaining lines are moved after the job's end.
LOG_WAIT_S = 5.0
# The final phase of a job that a limit has stopped.
PHASE_OF_LIMIT = {Cause.RUNTIME: Phase.MAX_RUNTIME_EXCEEDED, Cause.WAIT: Phase.MAX_WAIT_EXCEEDED}


class Run:
    """One run of one job, until the job ends or is interrupted.

    Call `execute` or `finish` once, in the job's own thread.

    Args:
        job: The job. After the run, the job has ended, or waits for its next run in the phase Interrupted or Starting.
        executor: Runs the job's hosts.
        settings: The server's settings.
        market: The spot market.
        logs: Moves the job's log to CloudWatch Logs during the run.
        shutdown: Set when the server shuts down.
    """

    def __init__(
        self,
        job: Job,
        executor: Executor,
        settings: Settings,
        market: SpotMarket,
        logs: JobLogs,
        shutdown: threading.Event,
    ) -> None:
        self._job, self._executor, self._settings = job, executor, settings
        self._market, self._logs, self._shutdown = market, logs, shutdown
        self._trees = list_host_trees(job, settings.data)
        self._work = get_work_class(job)(job, self._trees, executor, settings)
        # For `finish`, these are the forwarders of the run that an earlier server began.
        self._forwarders, self._max_log_wait_s = logs.find_forwarders(job), 0.0

    def execute(self) -> None:
        """Run the job until it ends or is interrupted."""
        self._run_and_clean_up(self._download_and_run)

    def finish(self, run_end: RunEnd) -> None:
        """Upload the results of a command that an earlier server started and that has ended, and end the job.

        Args:
            run_end: How the command ended.
        """
        # The command of an earlier server's run is not known any more.
        self._run_and_clean_up(lambda: self._end_run(run_end, command=[]))

    def _run_and_clean_up(self, action: Callable[[], None]) -> None:
        job = self._job
        try:
            action()
        except RunFailed as error:
            ended_at = self._end_log()
            self._clean_up()
            job.end(Status.FAILED, Phase.FAILED, error.reason, ended_at=ended_at)
        finally:
            self._clean_up()
            self._end_log()
        log.info("job %s: the run ended; status %s, phase %s", job.name, job.status, job.phase)

    def _clean_up(self) -> None:
        # A job that has filled the disk must not block the server or other jobs, so its whole tree is deleted.
        is_disk_full = shutil.disk_usage(self._settings.data).free < MIN_FREE_BYTES
        for tree in self._trees:
            if is_disk_full:
                log.warning("job %s: the disk is full, so its folder %s is deleted", self._job.name, tree.root)
                tree.delete()
            tree.delete_input()

    def _download_and_run(self) -> None:
        job, work = self._job, self._work
        if job.advance_to(Phase.DOWNLOADING):
            self._forwarders = self._logs.open(job, self._trees)
            try:
                work.create_trees()
            except OSError as error:
                raise RunFailed(f"ClientError: Data download failed: job folder: {error}") from error
            work.download()
            commands = [self._build_command(tree) for tree in self._trees]
            if self._shutdown.is_set() and job.advance_to(Phase.STARTING):
                return None  # the command has not started, so the next server starts the run again
            if job.advance_to(Phase.TRAINING):
                return self._end_run(self._run_commands(commands), commands[0])
        job.complete()  # the job was stopped before its command started

    def _build_command(self, tree: HostTree) -> list[str]:
        command = self._work.build_command(tree)
        base = self._executor.get_path_in_job(tree.root)
        # If the tree cannot be at /opt/ml, paths below /opt/ml in the command are replaced by paths below the tree.
        return [part.replace(f"{CONTAINER_BASE}/", f"{base}/") for part in command]

    def _run_commands(self, commands: Sequence[Sequence[str]]) -> RunEnd:
        hosts: list[RunningHost] = []
        try:
            for tree, command in zip(self._trees, commands, strict=True):
                hosts.append(self._executor.start(self._plan_host(tree, command)))
            log.info("job %s: running as process %s", self._job.name, ", ".join(str(host.pid) for host in hosts))
            supervision = Supervision(self._job, hosts, self._trees, self._settings, self._market, self._shutdown)
            with record_usage(self._job, hosts, self._trees, self._settings):
                run_end = supervision.wait_for_end(self._work.sync)
        finally:
            _finish_all_hosts(hosts)
        if run_end.cause is Cause.INTERRUPTION and supervision.notice_s > 0:
            self._work.save_progress(run_end.exit_code)
        return run_end

    def _plan_host(self, tree: HostTree, command: Sequence[str]) -> HostPlan:
        job, settings = self._job, self._settings
        addresses = choose_addresses(job.arn, [host_tree.host for host_tree in self._trees])
        env = self._work.build_environment(tree)
        if not self._executor.has_opt_ml:
            env |= build_name_variables(tree.host, addresses, env.get("PYTHONPATH", ""))
        return HostPlan(
            name=job.name,
            host=tree.host,
            addresses=addresses,
            root=tree.root,
            command=command,
            arguments=job.arguments,
            env=env,
            cwd=self._work.get_working_folder(tree),
            log=tree.log,
            process_file=tree.process_file,
            image=job.image,
            cores=min(job.instance_size.cores, settings.cores),
            memory_mib=min(job.instance_size.memory_mib, settings.memory_mib),
        )

    def _end_run(self, run_end: RunEnd, command: Sequence[str]) -> None:
        job, cause = self._job, run_end.cause
        if cause is Cause.INTERRUPTION:
            return job.enter_phase(Phase.INTERRUPTED)
        if cause is Cause.SHUTDOWN:
            return self._end_at_shutdown(run_end.exit_code)
        job.record_exit(cause, run_end.exit_code)
        job.enter_phase(Phase.UPLOADING)
        # Only a job whose command ended by itself waits for a long log.
        self._max_log_wait_s = LOG_WAIT_S if cause is Cause.EXIT else 0.0
        if cause is Cause.EXIT and run_end.exit_code != 0:
            # If the command ended before this server started, only the hosts' exit files say which host failed.
            host = run_end.failed_host or find_first_failure(self._trees) or self._trees[0].host
            raise RunFailed(self._work.handle_failure(run_end.exit_code, host, self._read_log_end(host), command))
        closing_lines = self._work.upload_results(run_end.exit_code)
        # Decided before the wait for the log: a stop that is requested during the wait comes too late.
        status, phase = (Status.STOPPED, PHASE_OF_LIMIT[cause]) if cause in PHASE_OF_LIMIT else job.choose_end()
        job.end(status, phase, ended_at=self._end_log(closing_lines))

    def _end_log(self, closing_lines: Sequence[str] = ()) -> datetime:
        """End the job's log, and wait for a limited time until its last lines are stored. Idempotent.

        Args:
            closing_lines: Lines of drydock itself for the log.

        Returns:
            The moment before the wait: the time of the job's end does not depend on its log.
        """
        moment = get_now()
        self._logs.end(self._forwarders, closing_lines)
        self._logs.wait(self._forwarders, self._max_log_wait_s)
        self._max_log_wait_s = 0.0  # the next call does not wait for a long log again
        return moment

    def _read_log_end(self, failed_host: str) -> str:
        """Return the end of the failed host's log; if it is empty, the end of the first log that is not."""
        trees = sorted(self._trees, key=lambda tree: tree.host != failed_host)
        return next(filter(None, (read_log_end(tree.log) for tree in trees)), "")

    def _end_at_shutdown(self, exit_code: int) -> None:
        if not self._job.is_spot:
            raise RunFailed("InternalServerError: drydock was shut down while the job ran")
        self._work.save_progress(exit_code)
        self._job.enter_phase(Phase.INTERRUPTED)


def list_host_trees(job: Job, data: Path) -> list[HostTree]:
    """Return the trees of a job's hosts, below the server's data folder."""
    folder = data / job.folder / job.account_id / job.region / job.name
    return [HostTree(folder / host) for host in list_host_names(job.host_count)]


def _finish_all_hosts(hosts: Sequence[RunningHost]) -> None:
    """Finish all hosts, even if one of them cannot be finished."""
    for host in hosts:
        with contextlib.suppress(RunFailed):  # the container engine does not answer; still finish the other hosts
            host.finish()
