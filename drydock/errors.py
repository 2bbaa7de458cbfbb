"""The classes of drydock's own errors.

DrydockError
├── StartFailed      the server cannot start: exit code 75, a retry can help
├── InvalidSetting   an option or the configuration file is not valid: exit code 2, a retry cannot help
├── RunFailed        a job fails, instances of an endpoint do not start, or the container engine does not answer
├── BlobDamaged      the bytes of an S3 object are missing or changed (s3_store/blobs.py)
├── RollbackRequired an update of an endpoint must be rolled back (endpoints/deployment.py)
├── FleetStopped     the instances of an endpoint were stopped (endpoints/instances/fleet_options.py)
├── VariantBusy      a serverless variant already answers MaxConcurrency requests (endpoints/instances/fleet_options.py)
└── InvocationError  an invocation of an endpoint fails (endpoints/invocation.py)

For a bad request the API answers with moto's own exceptions (moto.sagemaker.exceptions), which moto serialises.
"""

# SageMaker's limit for FailureReason and ExitMessage.
FAILURE_REASON_MAX_CHARS = 1024


class DrydockError(Exception):
    """The base class of drydock's errors."""


class StartFailed(DrydockError):
    """The server cannot start, for example because its port or data folder is in use. A retry can help."""


class InvalidSetting(DrydockError):
    """An option or a key of the configuration file is not valid. A retry cannot help."""


class RunFailed(DrydockError):
    """A job fails, instances of an endpoint do not start, or the container engine does not answer.

    Whether a retry can help depends on the reason.

    Args:
        reason: The FailureReason in SageMaker's words; cut to 1,024 characters, the API's limit.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(truncate(reason, FAILURE_REASON_MAX_CHARS))

    @property
    def reason(self) -> str:
        """The FailureReason, at most 1,024 characters."""
        return str(self.args[0])


def truncate(text: str, limit: int) -> str:
    """Return the text, cut to at most limit characters; a cut text ends with three dots."""
    return text if len(text) <= limit else text[: limit - 3] + "..."
