"""The interface of a job's work: download the input, choose the command of each host, and upload the results."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from drydock.errors import RunFailed
from drydock.host.tree import HostTree
from drydock.transfer.objects import is_outage

T = TypeVar("T")

# The errors that a transfer between S3 and the disk can raise.
TRANSFER_ERRORS = (ClientError, BotoCoreError, Boto3Error, OSError, ValueError)


class Work(Protocol):
    """The work of one run of a job; each kind of job has its own class. Only the run's thread calls it.

    A tree is the folder of one host, which the job sees at /opt/ml (`HostTree`).
    """

    def create_trees(self) -> None:
        """Create the trees of all hosts, with their configuration files only.

        Raises:
            OSError: The disk is full or not writable. A retry can help.
        """

    def download(self) -> None:
        """Download into the trees everything that the job reads.

        Raises:
            RunFailed: Something does not exist, cannot be downloaded, or needs a package that is not installed.
        """

    def build_command(self, tree: HostTree) -> list[str]:
        """Return the command that a host executes; [] to run the image's own entrypoint.

        Raises:
            RunFailed: The script does not exist, or cannot be started as the request says.
        """

    def build_environment(self, tree: HostTree) -> dict[str, str]:
        """Return all environment variables of a host's program."""

    def get_working_folder(self, tree: HostTree) -> Path:
        """Return the folder that a host's command starts in."""

    def sync(self) -> None:
        """Upload what is due while the job runs. Called about ten times a second. Raises nothing."""

    def save_progress(self, exit_code: int) -> None:
        """Upload what the next run needs to resume. Errors of S3 are logged, not raised.

        Args:
            exit_code: How the command ended, as a shell reports it.
        """

    def upload_results(self, exit_code: int) -> Sequence[str]:
        """Upload what the job produced.

        Args:
            exit_code: How the command ended, as a shell reports it.

        Returns:
            Lines to add to the job's log.

        Raises:
            RunFailed: S3 does not accept the upload, or a result is missing.
        """

    def handle_failure(self, exit_code: int, host: str, log_end: str, command: Sequence[str]) -> str:
        """Upload what this kind of job keeps after a failure, ignoring errors of S3, and return the FailureReason.

        Args:
            exit_code: How the command ended, as a shell reports it.
            host: Name of the host that failed first.
            log_end: The end of this host's log, or of another host's log if this one is empty.
            command: The command that failed.
        """


def run_transfer(description: str, transfer: Callable[[], T]) -> T:
    """Run a transfer between S3 and the disk, and return its result.

    Args:
        description: Text for the FailureReason, such as `Data download failed: channel train`.
        transfer: The function to call.

    Raises:
        RunFailed: The transfer failed. The reason begins with InternalServerError if S3 does not answer, or answers
            with status 429 or 5xx: then a retry can help. Otherwise it begins with ClientError.
    """
    try:
        return transfer()
    except TRANSFER_ERRORS as error:
        kind = "InternalServerError" if is_outage(error) else "ClientError"
        raise RunFailed(f"{kind}: {description}: {_describe_error(error)}") from error


def _describe_error(error: Exception) -> str:
    if isinstance(error, ClientError):
        details: dict[str, Any] = dict(error.response.get("Error", {}))
        return f"{details.get('Code')}: {details.get('Message')}"
    return f"{type(error).__name__}: {error}" if not str(error) else str(error)
