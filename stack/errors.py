"""All errors of the stack that a user sees, in one tree.

StackError              exit code
├── RequestError        2    the request is not valid: a retry cannot help
├── UnavailableError    75   a service, the disk or another process failed or is busy: a retry can help
└── TaskFailedError     a command failed: its exit code; or a task of Airflow failed: 2 or 75 if its log says so, else 1
"""

from __future__ import annotations


class StackError(Exception):
    """The root of the tree. The message is one line that says what is wrong and what to do.

    Attributes:
        message: this line.
        details: lines that explain the error, such as the end of a log; may be empty.
        exit_code: the exit code of the command.
    """

    exit_code = 1

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message, details)
        self.message = message
        self.details = details

    def __str__(self) -> str:
        """Return the message without the details."""
        return self.message


class RequestError(StackError):
    """The request is not valid. A retry cannot help."""

    exit_code = 2


class UnavailableError(StackError):
    """A service, the disk or another process failed or is busy. A retry can help."""

    exit_code = 75


class TaskFailedError(StackError):
    """A task of Airflow, or a command of the replay, failed. A retry can help if `exit_code` is 75."""

    def __init__(self, message: str, details: str = "", exit_code: int = 1) -> None:
        super().__init__(message, details)
        self.args = (message, details, exit_code)
        self.exit_code = exit_code
