"""What one server was started with."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

DEFAULT_REGION = "us-east-1"


def machine_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_memory_gib() -> float:
    """Return the machine's memory in GiB."""
    return round(psutil.virtual_memory().total / 2**30, 1)


@dataclass(frozen=True)
class Settings:
    """The settings of one server; nothing of it changes while the server runs.

    Attributes:
        data: The folder that holds all that the server keeps. One server at a time.
        url: Where this server answers; jobs get it as AWS_ENDPOINT_URL.
        cores: vCPUs that running jobs may have together; the others wait their turn in Starting.
        memory_mb: Memory that they may have together, in MiB.
        stop_grace_s: Seconds between SIGTERM and SIGKILL (SageMaker: 120).
        checkpoint_interval_s: Seconds between two copies of the checkpoint folder to S3.
        shutdown_grace_s: Seconds from SIGTERM to SIGKILL for running jobs when the server itself ends.
        s3_url: Another server that keeps the buckets; "" where this one does.
        s3_patience_s: Seconds for which the server asks S3 again where that fails for a passing reason.
    """

    data: Path
    url: str
    cores: int
    memory_mb: int
    stop_grace_s: float = 120.0
    checkpoint_interval_s: float = 0.5
    shutdown_grace_s: float = 5.0
    s3_url: str = ""
    s3_patience_s: float = 60.0

    @property
    def objects_url(self) -> str:
        """Where jobs' channels, checkpoints and models are read and written."""
        return self.s3_url or self.url
