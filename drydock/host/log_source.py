"""The interfaces of logs: what the log of a process belongs to, and what moves its lines to CloudWatch Logs."""

from collections.abc import Sequence
from typing import Any, Protocol

from drydock.host.tree import HostTree


class LogSource(Protocol):
    """A job, or a variant of an endpoint, whose processes write logs."""

    @property
    def kind(self) -> str:
        """Name of its kind, in the store."""

    @property
    def account_id(self) -> str:
        """Id of its account."""

    @property
    def region(self) -> str:
        """Its region."""

    @property
    def name(self) -> str:
        """Its name, which begins the names of its log streams."""

    @property
    def log_group(self) -> str:
        """Name of its log group in CloudWatch Logs."""

    @property
    def has_metrics(self) -> bool:
        """Whether `read_metrics` must get the lines."""

    @property
    def is_discarded(self) -> bool:
        """Whether its logs are not needed any more."""

    def read_metrics(self, lines: Sequence[str], printed_ms: int) -> None:
        """Read the values of metrics from lines that were printed at a time, in ms since 1970."""


class ProcessLogs(Protocol):
    """Moves the logs of processes to CloudWatch Logs."""

    def open(self, source: LogSource, trees: Sequence[HostTree]) -> Sequence[Any]:
        """Begin to follow the log files of a source's hosts, whose commands have not started; return forwarders."""

    def end(self, forwarders: Sequence[Any]) -> None:
        """Tell forwarders that the commands have ended, so that the last lines can be moved. Idempotent."""

    def wait(self, forwarders: Sequence[Any], patience_s: float) -> None:
        """Wait until the last lines of forwarders are stored, or for `patience_s` if there are many of them."""
