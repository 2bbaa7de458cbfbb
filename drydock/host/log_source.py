"""Two interfaces: a source, whose processes write logs, and what moves these logs to CloudWatch Logs."""

from collections.abc import Sequence
from typing import Any, Protocol

from drydock.host.tree import HostTree


class LogSource(Protocol):
    """A job, or a variant of an endpoint, whose processes write logs."""

    @property
    def kind(self) -> str:
        """Name of the source's kind in the store: training, processing, transform or endpoint."""

    @property
    def account_id(self) -> str:
        """Id of the account that owns the source."""

    @property
    def region(self) -> str:
        """The source's region."""

    @property
    def name(self) -> str:
        """The source's name. The names of its log streams begin with it."""

    @property
    def log_group(self) -> str:
        """Name of the source's log group in CloudWatch Logs."""

    @property
    def has_metrics(self) -> bool:
        """Whether the lines may contain values of metrics, so that `update_metrics` must be called with them."""

    @property
    def is_discarded(self) -> bool:
        """Whether the logs are not needed any more."""

    def update_metrics(self, lines: Sequence[str], printed_ms: int) -> None:
        """Update the metrics from lines of the log, which were printed at printed_ms (milliseconds since 1970)."""


class ProcessLogs(Protocol):
    """Moves the logs of processes to CloudWatch Logs."""

    def open(self, source: LogSource, trees: Sequence[HostTree]) -> Sequence[Any]:
        """Begin to follow the log files of a source's hosts, before their commands start.

        Returns:
            A forwarder for each host.
        """

    def end(self, forwarders: Sequence[Any]) -> None:
        """Notify forwarders that the commands have ended, so that they move the last lines. Idempotent."""

    def wait(self, forwarders: Sequence[Any], max_wait_s: float) -> None:
        """Wait until the last lines of forwarders are stored, or a time limit is reached.

        While many bytes are left to store, the limit is max_wait_s seconds. While few are left, it is a constant.
        """
