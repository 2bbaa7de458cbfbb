"""Record what the hosts of a run use, as the CloudWatch metrics that SageMaker has of a job."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from drydock.cloudwatch.backend import record_host_metrics
from drydock.host.executor import RunningHost
from drydock.host.host_metrics import SLOW_SAMPLE_S, HostMeter
from drydock.host.tree import HostTree
from drydock.jobs.job import Job
from drydock.resources import Owner
from drydock.settings import Settings

log = logging.getLogger(__name__)

SAMPLE_S = 5.0
"""Seconds between two samples of a host's CPU and memory."""
EARLY_SAMPLE_S, EARLY_PERIOD_S = 1.0, 60.0
"""Seconds between two samples at the beginning of a run, so that short jobs have data, too; and how long this beginning
lasts."""
COST_FACTOR = 50
"""Shortest pause, as a multiple of the CPU time of the last sample: samples take at most 2 % of a core."""


class UsageSampler:
    """Samples the hosts of one run in a thread of its own. Nothing waits for this thread.

    Args:
        job: The job.
        hosts: The running hosts.
        trees: Their folder trees, in the same order.
        settings: The server's settings.
    """

    def __init__(self, job: Job, hosts: Sequence[RunningHost], trees: Sequence[HostTree], settings: Settings) -> None:
        self._job, self._hosts = job, list(zip(hosts, trees, strict=True))
        self._owner = Owner(job.account_id, job.region)
        volume_gib = int(job.resources.get("VolumeSizeInGB") or 0)
        self._meter = HostMeter(job.instance_size.memory_mib, settings.memory_mib, volume_gib)
        self._disk_and_gpus_due_at, self._has_failed = 0.0, False
        self._stop_event = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"usage of {job.name}", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def close(self) -> None:
        """Stop sampling, without a wait: the engine of containers may need seconds for a sample."""
        self._stop_event.set()

    def _run(self) -> None:
        started_at = time.monotonic()
        while not self._stop_event.is_set():
            cpu_s = time.thread_time()
            try:
                self._sample()
            except Exception:  # the disk is full, or the server ends; the job must not notice
                if not self._has_failed and not self._stop_event.is_set():
                    log.exception("job %s: its usage cannot be recorded", self._job.name)
                self._has_failed = True
            is_early = time.monotonic() - started_at < EARLY_PERIOD_S
            pause_s = EARLY_SAMPLE_S if is_early else SAMPLE_S
            self._stop_event.wait(max(pause_s, COST_FACTOR * (time.thread_time() - cpu_s)))

    def _sample(self) -> None:
        is_slow_sample = time.monotonic() >= self._disk_and_gpus_due_at
        for host, tree in self._hosts:
            values = self._meter.measure(host, tree.root, is_slow_sample=is_slow_sample)
            if not values or self._stop_event.is_set():
                continue
            record_host_metrics(self._owner, self._job.log_group, self._job.build_metrics_host(tree.host), values)
            if is_slow_sample:
                self._disk_and_gpus_due_at = time.monotonic() + SLOW_SAMPLE_S


@contextmanager
def record_usage(
    job: Job, hosts: Sequence[RunningHost], trees: Sequence[HostTree], settings: Settings
) -> Iterator[None]:
    """Record what the hosts of a run use during a block; the arguments are those of `UsageSampler`."""
    sampler = UsageSampler(job, hosts, trees, settings)
    sampler.start()
    try:
        yield
    finally:
        sampler.close()
