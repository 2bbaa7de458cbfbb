"""What one server was started with."""

import os
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_REGION = "us-east-1"


def machine_slots() -> int:
    """Return how many jobs run at once by default: one for each core."""
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Settings:
    """The settings of one server; nothing of it changes while the server runs.

    Attributes:
        data: The folder that holds the jobs' trees. One server at a time.
        url: Where this server answers; jobs get it as AWS_ENDPOINT_URL.
        slots: Jobs that run at once; the others wait their turn in Starting.
        stop_grace_s: Seconds between SIGTERM and SIGKILL (SageMaker: 120).
        checkpoint_interval_s: Seconds between two copies of the checkpoint folder to S3.
        shutdown_grace_s: Seconds from SIGTERM to SIGKILL for running jobs when the server itself ends.
    """

    data: Path
    url: str
    slots: int = field(default_factory=machine_slots)
    stop_grace_s: float = 120.0
    checkpoint_interval_s: float = 5.0
    shutdown_grace_s: float = 5.0
