"""The settings that one server was started with."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil


def get_usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def get_machine_memory_gib() -> float:
    """Return the machine's memory in GiB."""
    return round(psutil.virtual_memory().total / 2**30, 1)


@dataclass(frozen=True)
class Settings:
    """The settings of one server. They do not change while the server runs.

    Attributes:
        data: Folder that holds everything the server stores. Only one server at a time may use it.
        url: URL of this server; jobs get it as AWS_ENDPOINT_URL.
        cores: vCPUs that all running jobs together may have; other jobs wait in the phase Starting.
        memory_mib: Memory in MiB that all running jobs together may have.
        stop_grace_s: Seconds between SIGTERM and SIGKILL when a job is stopped, reaches a limit, or ends because one of
            its hosts failed (SageMaker: 120).
        checkpoint_interval_s: Seconds between two uploads to S3 of a checkpoint folder, or of an output with
            S3UploadMode Continuous.
        shutdown_grace_s: Seconds between SIGTERM and SIGKILL for running jobs when the server itself ends.
        invocation_timeout_s: Seconds within which the model of an endpoint must answer a request (SageMaker: 60).
        serverless_idle_s: Seconds without a request after which the process of a serverless variant is ended.
        scaling_period_s: Seconds of a period of target tracking, for which a scaling policy reads its metric (AWS: 60).
        s3_url: URL of another server that has the S3 buckets; "" if this server has them.
        s3_retry_s: Seconds for which a failed request to S3 is retried, if its error may be temporary.
        gives_invented_answers: Whether moto invents answers for SageMaker operations that drydock refuses otherwise.
        own_hosts: More host names that the Host header of a request may have. localhost, the machine's name, IP
            addresses and AWS's domains are always accepted.
    """

    data: Path
    url: str
    cores: int
    memory_mib: int
    stop_grace_s: float = 120.0
    checkpoint_interval_s: float = 0.5
    shutdown_grace_s: float = 5.0
    invocation_timeout_s: float = 60.0
    serverless_idle_s: float = 300.0
    scaling_period_s: float = 60.0
    s3_url: str = ""
    s3_retry_s: float = 60.0
    gives_invented_answers: bool = False
    own_hosts: tuple[str, ...] = ()

    @property
    def objects_url(self) -> str:
        """URL of the server that has the jobs' channels, checkpoints and models."""
        return self.s3_url or self.url
