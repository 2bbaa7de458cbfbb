"""One instance behind an endpoint: a folder tree with the model, and a process or a container that serves it."""

import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from drydock.endpoints.instances import model_server
from drydock.endpoints.instances.connection_pool import ConnectionPool, is_answering_ping
from drydock.endpoints.instances.logs import VariantLog
from drydock.endpoints.instances.plan import plan_host
from drydock.endpoints.records import Variant
from drydock.errors import RunFailed
from drydock.host.executor import Executor, RunningHost
from drydock.host.host_metrics import HostMeter
from drydock.host.log_source import ProcessLogs
from drydock.host.programs import copy_program
from drydock.host.requirements import check_requirements
from drydock.host.tree import HostTree
from drydock.jobs.failure import list_last_lines, read_log_end
from drydock.jobs.transform.job import get_model_data_uri
from drydock.jobs.work import run_transfer
from drydock.resources import Owner
from drydock.settings import Settings
from drydock.transfer import archive
from drydock.transfer.objects import ObjectStore
from drydock.transfer.stable_read import open_regular_file

START_TIMEOUT_S = 600.0
"""Seconds that a model may take to load: the largest of SageMaker's default timeouts."""
STOP_GRACE_S = 5.0
"""Seconds from SIGTERM until the process is killed."""
TRACEBACK_WAIT_S = 1.0
"""Seconds for which a process that did not answer in time may still write the stacks of its threads to the log."""
POLL_S = 0.02
"""Seconds between two checks of whether a process serves the model, or has ended."""
LOG_END_CHARS = 700
"""Most characters of an instance's log that an error quotes."""
STANDBY_NICENESS = 10
"""Niceness at which a standby process imports libraries. It is high, because no request waits for the process yet."""
IMPORTS_MAX_BYTES = 1 << 20
"""Most bytes that are read from the file of imports: the model's code could make it longer."""
LOG_WAIT_S = 2.0
"""Longest wait of `stop` until the last lines of a long log are in CloudWatch Logs, seconds."""


class Instance:
    """An instance of a variant. Its process may be started again after it has ended.

    Args:
        variant: The variant that it serves.
        tree: Its folder tree.
        objects: The S3 objects of the endpoint's account.
        owner: The endpoint's account and region.
        executor: Runs the process.
        settings: The server's settings.
        logs: Moves the log to CloudWatch Logs.
    """

    def __init__(
        self,
        variant: Variant,
        tree: HostTree,
        objects: ObjectStore,
        owner: Owner,
        executor: Executor,
        settings: Settings,
        logs: ProcessLogs,
    ) -> None:
        self.variant = variant
        self._tree, self._objects, self._owner = tree, objects, owner
        self._executor, self._settings, self._logs = executor, settings, logs
        self._forwarders: Sequence[Any] = ()
        self._host: RunningHost | None = None
        self.is_standby = False
        """Whether its process is importing the model's libraries, or has imported them and waits for `start`."""
        self._stop_event = threading.Event()
        self.pool: ConnectionPool | None = None
        """Sends requests to the process; None while it does not answer."""
        self.requests, self.used_at = 0, time.monotonic()
        """Number of requests that it answers now, and when the last request ended. The fleet sets both."""

    @property
    def name(self) -> str:
        """Name of the instance, such as i-0c1f2e3d."""
        return self._tree.host

    @property
    def log_stream(self) -> str:
        """Name of its log stream; "" before `prepare`."""
        return str(self._forwarders[0].stream) if self._forwarders else ""

    def prepare(self) -> None:
        """Create the folder tree, begin the instance's log, and download the model into the tree.

        Raises:
            RunFailed: The folder tree cannot be written, or the model cannot be downloaded, or needs packages that this
                Python does not have.
        """
        try:
            self._tree.create([self._tree.model, self._tree.output, self._tree.code])
            copy_program(model_server, self._tree.code, model_server.PROGRAM_FILE)
            source = VariantLog(self._owner, self._tree.root.parent.name, self.variant.name)
            self._forwarders = self._logs.open(source, [self._tree])
        except OSError as error:
            raise RunFailed(f"InternalServerError: folder of the instance: {error}") from error
        uri, archive_file = get_model_data_uri(self.variant.container), self._tree.root / "model.tar.gz"
        description = f"Failed to download model data for container: {uri}"
        run_transfer(description, lambda: self._objects.download(uri, archive_file))
        run_transfer(description, lambda: archive.unpack(archive_file, self._tree.model))
        archive_file.unlink()
        if not self._executor.is_container:
            check_requirements(self._tree.model / "code" / "requirements.txt")

    def stand_by(self, imports: bytes) -> None:
        """Start the process of a prepared instance as a standby: it imports libraries, and waits for a call of `start`.

        Args:
            imports: What `read_imports` of another instance of the variant returned.

        Raises:
            RunFailed: The folder tree cannot be written, or the process cannot be started.
        """
        code = self._tree.code
        try:
            (code / model_server.IMPORTS_FILE).write_bytes(imports)
            os.mkfifo(code / model_server.LOAD_PIPE)
        except OSError as error:
            raise RunFailed(f"InternalServerError: folder of the instance: {error}") from error
        self._host = self._start_host(model_server.STANDBY_VARIABLE, STANDBY_NICENESS)
        self.is_standby = True

    def read_imports(self) -> bytes:
        """Return the libraries that the process has imported, as `stand_by` needs them; empty if not known."""
        with contextlib.suppress(OSError), open_regular_file(self._tree.code / model_server.IMPORTS_FILE) as file:
            return file.read(IMPORTS_MAX_BYTES)
        return b""

    def has_imported_libraries(self) -> bool:
        """Return whether this is a standby whose process has imported the libraries."""
        return self.is_standby and (self._tree.code / model_server.READY_FILE).exists()

    def start(self, niceness: int = 0) -> None:
        """Start the process, or let the standby process load the model, and wait until it answers.

        Args:
            niceness: Niceness of the process while it loads the model; larger if no request waits for the process. It
                has no effect on a standby process.

        Raises:
            RunFailed: The process ends before it answers, or does not answer in time: the reason quotes its log. Or the
                instance was stopped.
        """
        if self._stop_event.is_set():
            raise RunFailed(self._describe_failed_start())
        host = self._host if self.is_standby else None
        if host is None:
            (self._tree.code / model_server.PORT_FILE).unlink(missing_ok=True)
            self._host = host = self._start_host(model_server.NICENESS_VARIABLE, niceness)
        deadline = time.monotonic() + START_TIMEOUT_S
        while (port := self._find_port(host)) is None:
            if self.is_standby:
                self.is_standby = not self._let_standby_load()
            if host.has_exited() or self._stop_event.is_set() or time.monotonic() > deadline:
                host.finish()
                raise RunFailed(self._describe_failed_start())
            time.sleep(POLL_S)
        self.pool = ConnectionPool(port)

    def _start_host(self, variable: str, niceness: int) -> RunningHost:
        """Start the process with a niceness, and pass the niceness to the model server in the variable `variable`."""
        variables = {variable: str(niceness)}
        plan = plan_host(self.variant, self._tree, self._owner, self._executor, self._settings, variables)
        return self._executor.start(replace(plan, niceness=niceness))

    def _find_port(self, host: RunningHost) -> int | None:
        """Return the port at which the model is served; None while the model is not loaded."""
        if self._executor.is_container:
            port = host.find_published_port()
            return port if port and is_answering_ping(port) else None
        port_file = self._tree.code / model_server.PORT_FILE
        return int(port_file.read_text(encoding="utf-8")) if port_file.exists() else None

    def _let_standby_load(self) -> bool:
        """Let the standby process load the model, by opening its pipe. Return False if it still imports libraries."""
        try:
            # O_NONBLOCK: without a reader, opening the pipe fails instead of waiting.
            os.close(os.open(self._tree.code / model_server.LOAD_PIPE, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    def measure_usage(self, *, is_slow_sample: bool) -> Mapping[str, float]:
        """Return the instance's utilization in percent, by the names of CloudWatch's metrics; empty while unknown.

        Args:
            is_slow_sample: Whether the disk and the GPUs are measured, too. That takes longer.
        """
        host = self._host
        if host is None or self.pool is None:
            return {}
        meter = HostMeter(self.variant.size.memory_mib, self._settings.memory_mib, self.variant.volume_gib)
        return meter.measure(host, self._tree.root, is_slow_sample=is_slow_sample)

    def has_ended(self) -> bool:
        """Return whether the process has ended without a call of `stop`, or does not answer any more."""
        if self._stop_event.is_set() or self._host is None:
            return False
        pool = self.pool
        return self._host.has_exited() or (pool is not None and pool.is_stuck)

    def restart(self, niceness: int = 0) -> None:
        """Start the process again after it has ended. If it hangs, end it first.

        Args:
            niceness: Niceness of the process while it loads the model; larger if no request waits for the process.

        Raises:
            RunFailed: The process ends before it answers, or does not answer in time: the reason quotes its log. Or the
                instance was stopped.
        """
        self.pool = None
        if self._host is not None:
            _wait_for_exit(self._host, TRACEBACK_WAIT_S)
            self._host.finish()
        self.start(niceness)

    def stop(self) -> None:
        """End the process, and delete the folder tree. Idempotent."""
        self._stop_event.set()
        pool, self.pool = self.pool, None
        if self._host is not None:
            self._end_process(self._host)
        if pool is not None:
            pool.close()
        self._logs.end(self._forwarders)
        self._logs.wait(self._forwarders, LOG_WAIT_S)
        self._tree.delete()

    def _end_process(self, host: RunningHost) -> None:
        if not host.has_exited():
            host.terminate()
        _wait_for_exit(host, STOP_GRACE_S)
        host.finish()

    def _describe_failed_start(self) -> str:
        if self._stop_event.is_set():
            return "The instance was stopped before its model was loaded."
        text = f"The primary container for production variant {self.variant.name} did not pass the ping health check."
        lines = list_last_lines(read_log_end(self._tree.log))
        return f"{text} The end of its log: {' | '.join(lines)[-LOG_END_CHARS:]}" if lines else text


def _wait_for_exit(host: RunningHost, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not host.has_exited() and time.monotonic() < deadline:
        time.sleep(POLL_S)
