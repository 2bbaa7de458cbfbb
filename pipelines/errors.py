"""Every error that a step raises, in one tree.

LeewayError                 exit code
├── InvalidError            2    the request or the data is wrong: a retry cannot help
│   ├── SpecError                a spec, an option or params.yaml is not valid
│   ├── DataError                the data is not what was promised (column, partition, rows)
│   ├── ValidationError          a critical expectation failed, so nothing was published
│   ├── TrainingError            the training script crashed
│   └── PromotionError           the registry's rules forbid this promotion
└── TryAgainError           75   something outside failed: the same request may work later
    ├── ServiceError             MLflow, S3, SageMaker or the catalog does not answer
    ├── ConflictError            somebody else is writing the same thing
    └── StorageError             no space, or the disk refuses

Anything else that escapes a step is a bug, and exits with 1.
"""

from __future__ import annotations

from typing import ClassVar

MAX_CHARS = 1_500
"""Longest text of an error: it goes to logs, XCom and a person's screen, whatever the data held."""
MAX_HINT_CHARS = 400
"""How much of it the hint may take."""


class LeewayError(Exception):
    """The root. `message` says what is wrong, `hint` what to do; both survive pickling."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = _one_line(message, MAX_CHARS - MAX_HINT_CHARS - 1)
        self.hint = _one_line(hint, MAX_HINT_CHARS)
        super().__init__(self.message, self.hint)

    def __str__(self) -> str:
        """The message, then the hint, on one line."""
        return f"{self.message} {self.hint}".strip()


class InvalidError(LeewayError):
    """The request or the data is wrong: a retry cannot help."""

    exit_code = 2


class SpecError(InvalidError):
    """A spec, an option or params.yaml is not valid."""


class DataError(InvalidError):
    """The data is not what was promised."""


class ValidationError(InvalidError):
    """A critical expectation failed; nothing was published."""


class TrainingError(InvalidError):
    """The training script crashed."""


class PromotionError(InvalidError):
    """The registry's rules forbid this promotion."""


class TryAgainError(LeewayError):
    """Something outside failed: the same request may work later."""

    exit_code = 75


class ServiceError(TryAgainError):
    """MLflow, S3, SageMaker or the catalog does not answer."""


class ConflictError(TryAgainError):
    """Somebody else is writing the same thing."""


class StorageError(TryAgainError):
    """No space, or the disk refuses."""


def _one_line(text: str, limit: int) -> str:
    """The printable text on one line, cut in its middle where it is longer than `limit`."""
    # What data holds must not steer a terminal.
    line = " ".join("".join(one if one.isprintable() else " " for one in str(text)).split())
    if len(line) <= limit:
        return line
    half = (limit - 5) // 2
    return f"{line[:half]} ... {line[-half:]}"
