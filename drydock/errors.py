"""Every error that drydock raises by itself.

DrydockError
├── CannotStart    the server cannot run here and now: exit code 75, trying again can help
└── JobFailed      a training job ends as Failed, with this FailureReason

What the API answers to a bad request are moto's own exceptions (moto.sagemaker.exceptions), which moto
serialises.
"""

FAILURE_REASON_MAX_CHARS = 1024


class DrydockError(Exception):
    """The root of the tree."""


class CannotStart(DrydockError):
    """The port or the data folder is taken. A retry can help."""


class JobFailed(DrydockError):
    """A training job cannot end well.

    Args:
        reason: The FailureReason as SageMaker words it; cut to 1,024 characters, the limit of the API.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(bounded(reason, FAILURE_REASON_MAX_CHARS))

    @property
    def reason(self) -> str:
        """The FailureReason, at most 1,024 characters."""
        return str(self.args[0])


def bounded(text: str, limit: int) -> str:
    """Return text in at most limit characters; what was cut is marked."""
    return text if len(text) <= limit else text[: limit - 3] + "..."
