"""What differs between the kinds of jobs: what goes into a host's tree, what is run there, what is carried out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from drydock.errors import JobFailed
from drydock.host.tree import HostTree

T = TypeVar("T")

# What a transfer to or from S3 and the disk can raise.
TRANSFER_ERRORS = (ClientError, BotoCoreError, Boto3Error, OSError, ValueError)


class Work(Protocol):
    """One run's work. Called by the run's thread only."""

    def create(self) -> None:
        """The trees of all hosts are there, empty but for their configuration."""

    def download(self) -> None:
        """All that the job reads is in the trees.

        Raises:
            JobFailed: Something is not there, or cannot be had.
        """

    def command(self, tree: HostTree) -> list[str]:
        """Return what a host executes; nothing for what its image starts by itself.

        Raises:
            JobFailed: There is nothing to execute.
        """

    def environment(self, tree: HostTree) -> dict[str, str]:
        """Return a host's whole environment."""

    def cwd(self, tree: HostTree) -> Path:
        """Return the folder a host starts in."""

    def read(self, line: str) -> None:
        """A line of the log has come."""

    def tick(self) -> None:
        """About ten times a second while the job runs. Does not fail."""

    def leave(self) -> None:
        """The instances go away: what must outlive them is in S3, as far as S3 answers."""

    def deliver(self) -> Sequence[str]:
        """What the job made is in S3; returns lines for its log.

        Raises:
            JobFailed: S3 does not take it.
        """

    def fail(self, exit_code: int, last_lines: Sequence[str], command: Sequence[str]) -> str:
        """What a failed job leaves is in S3, as far as S3 answers; returns the FailureReason."""


def attempt(what: str, action: Callable[[], T]) -> T:
    """Return what action returns.

    Raises:
        JobFailed: It failed; what says of the transfer which it was.
    """
    try:
        return action()
    except TRANSFER_ERRORS as error:
        raise JobFailed(f"ClientError: {what}: {_short(error)}") from error


def _short(error: Exception) -> str:
    if isinstance(error, ClientError):
        found: dict[str, Any] = dict(error.response.get("Error", {}))
        return f"{found.get('Code')}: {found.get('Message')}"
    return f"{type(error).__name__}: {error}" if not str(error) else str(error)
