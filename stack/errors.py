"""Every error that a person of the stack sees, in one tree.

StackError              exit code
├── RequestError        2    the request is wrong: a retry cannot help
├── UnavailableError    75   something outside failed or is busy: try again
└── TaskFailedError     as the failed task's step said; 1 where it did not
"""

from __future__ import annotations


class StackError(Exception):
    """The root. Its text is one line that says what is wrong and what to do; `details` follow it.

    Attributes:
        details: the end of a log, for people; may be many lines.
        exit_code: what the command ends with.
    """

    exit_code = 1

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message, details)
        self.message = message
        self.details = details

    def __str__(self) -> str:
        """The one line."""
        return self.message


class RequestError(StackError):
    """The request is wrong: a retry cannot help."""

    exit_code = 2


class UnavailableError(StackError):
    """Something outside failed, or is busy: the same request may work later."""

    exit_code = 75


class TaskFailedError(StackError):
    """A task of Airflow failed."""

    def __init__(self, message: str, details: str = "", exit_code: int = 1) -> None:
        super().__init__(message, details)
        self.args = (message, details, exit_code)
        self.exit_code = exit_code
