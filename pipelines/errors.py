"""Define the errors that a step raises, in one tree. The branch determines the exit code.

LeewayError                 exit code
├── InvalidError            2    refused, mostly because the request or the data is wrong: a retry cannot help
│   ├── SpecError                a spec, an option or params.yaml is not valid
│   ├── DataError                the data is missing or not valid (columns, partition, rows)
│   ├── ValidationError          a critical expectation failed, so nothing was published
│   ├── TrainingError            the training script failed
│   ├── PromotionError           the registry's rules forbid this promotion
│   └── EnginesDifferError       DuckDB and Great Expectations judge the same rows differently
└── RetryableError           75   something outside failed: the same request may work later
    ├── ServiceError             MLflow, S3, SageMaker or the catalog does not answer
    ├── ConflictError            another process writes the same thing
    └── StorageError             no space left, or the disk refuses the write

Any other exception that leaves a step is a bug, and the exit code is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pipelines.escaping import escape

MAX_CHARS = 1_500
"""Largest length of an error's text, because it is written to logs, XCom and the terminal."""
MAX_HINT_CHARS = 400
"""Largest length of the hint, as a part of `MAX_CHARS`."""
MAX_NAMED_REFUSALS = 5
"""Largest number of refusals that one error names."""
MAX_REFUSAL_CHARS = 900
"""Largest total length of the messages of these refusals, characters."""


class LeewayError(Exception):
    """Base class: `message` says what is wrong, `hint` what to do about it. Both survive pickling."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = _format_one_line(message, MAX_CHARS - MAX_HINT_CHARS - 1)
        self.hint = _format_one_line(hint, MAX_HINT_CHARS)
        super().__init__(self.message, self.hint)

    def __str__(self) -> str:
        """Format the message and the hint on one line."""
        return f"{self.message} {self.hint}".strip()


class InvalidError(LeewayError):
    """Something is refused, mostly because the request or the data is wrong: a retry cannot help."""

    exit_code = 2


class SpecError(InvalidError):
    """A spec, an option or params.yaml is not valid."""


class DataError(InvalidError):
    """The data is missing or not valid: columns, partition or rows."""


class ValidationError(InvalidError):
    """A critical expectation failed; nothing was published."""


class TrainingError(InvalidError):
    """The training script failed: it ended with an error."""


class PromotionError(InvalidError):
    """The registry's rules forbid this promotion."""


class EnginesDifferError(InvalidError):
    """DuckDB and Great Expectations judge the same rows differently: a bug of one of them. Nothing was published."""


class RetryableError(LeewayError):
    """Something outside failed: the same request may work later."""

    exit_code = 75


class ServiceError(RetryableError):
    """MLflow, S3, SageMaker or the catalog does not answer."""


class ConflictError(RetryableError):
    """Another process writes the same thing."""


class StorageError(RetryableError):
    """No space left, or the disk refuses the write."""


def describe_refusals(refusals: Mapping[Any, LeewayError]) -> str:
    """Describe the errors of the first `MAX_NAMED_REFUSALS` partitions. The fewer there are, the longer each may be.

    Args:
        refusals: maps each refused partition to its error; one or more.
    """
    limit = MAX_REFUSAL_CHARS // min(len(refusals), MAX_NAMED_REFUSALS)
    texts = [f"{partition}: {_format_one_line(error.message, limit)}" for partition, error in refusals.items()]
    return " / ".join(texts[:MAX_NAMED_REFUSALS])


def _format_one_line(text: str, limit: int) -> str:
    """Put the text on one line, escaped, and cut out its middle if it is longer than `limit` characters."""
    line = escape(" ".join(str(text).split()))
    if len(line) <= limit:
        return line
    half_chars = (limit - len(" ... ")) // 2
    return f"{line[:half_chars]} ... {line[-half_chars:]}"
