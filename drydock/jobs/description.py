"""What a job's record says of the job: its name, its state, its times, its instances and its limits."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from drydock.host.machines import MachineSize, parse_instance_type
from drydock.jobs.record import Record, get_now, measure_running_s
from drydock.jobs.states import Phase, Status


class JobDescription(ABC):
    """The description of a job, read from its record. It changes nothing.

    Args:
        record: The job's record.
    """

    api_name: ClassVar[str]
    """The kind's name in the API: Training, as in CreateTrainingJob and TrainingJobName."""

    def __init__(self, record: Record) -> None:
        self.record = record

    @property
    def name(self) -> str:
        """The job's name, unique for its kind in its account and region."""
        return str(self.record.request[f"{self.api_name}JobName"])

    @property
    def kind(self) -> str:
        """The kind's name in the store and in messages: training, processing or transform."""
        return self.api_name.lower()

    @property
    def log_group(self) -> str:
        """Name of the CloudWatch log group that the job logs to, and of the namespace of its hosts' metrics."""
        return f"/aws/sagemaker/{self.api_name}Jobs"

    def build_metrics_host(self, host: str) -> str:
        """Return the value of the dimension Host of the metrics of one host, such as algo-1."""
        return f"{self.name}/{host}"

    @property
    def arn(self) -> str:
        """The job's ARN."""
        return self.record.arn

    @property
    def tags(self) -> list[dict[str, str]]:
        """The job's tags, for moto's tagging and Search."""
        return self.record.tags

    @property
    def status(self) -> Status:
        """The current status."""
        return self.record.status

    @property
    def phase(self) -> Phase:
        """The current SecondaryStatus."""
        return self.record.transitions[-1].phase

    @property
    def modified_at(self) -> datetime:
        """When the job last changed."""
        return self.record.modified

    @property
    def created_at(self) -> datetime:
        """When the job was created: CreationTime."""
        return self.record.transitions[0].start

    @property
    def started_at(self) -> datetime | None:
        """When the first download began; None before. The billing begins at the same moment."""
        download_starts = (entry.start for entry in self.record.transitions if entry.phase is Phase.DOWNLOADING)
        return next(download_starts, None)

    @property
    def ended_at(self) -> datetime | None:
        """When the job ended; None before."""
        return self.record.transitions[-1].end if self.status.is_final else None

    @property
    def run_count(self) -> int:
        """How many times the job's command was started so far."""
        return sum(entry.phase is Phase.TRAINING for entry in self.record.transitions)

    @property
    def request(self) -> dict[str, Any]:
        """The request, with the API's defaults."""
        return self.record.request

    @property
    @abstractmethod
    def image(self) -> str:
        """The image that the request names; for a transform job, that of its model; "" if no image is named."""

    @property
    @abstractmethod
    def arguments(self) -> Sequence[str]:
        """The arguments that the image's own entrypoint gets, unless a command replaces the entrypoint."""

    @property
    @abstractmethod
    def resources(self) -> Mapping[str, Any]:
        """The part of the request that has InstanceType and InstanceCount."""

    @property
    def is_spot(self) -> bool:
        """Whether the job runs on managed spot instances."""
        return bool(self.request.get("EnableManagedSpotTraining", False))

    @property
    def host_count(self) -> int:
        """The number of instances."""
        return int(self.resources["InstanceCount"])

    @property
    def instance_type(self) -> str:
        """The instance type, such as ml.m5.large."""
        return str(self.resources.get("InstanceType", ""))

    @property
    def instance_size(self) -> MachineSize:
        """The size of one instance."""
        return parse_instance_type(self.instance_type)

    @property
    def remaining_runtime_s(self) -> float:
        """Seconds of running time until MaxRuntimeInSeconds is used up; infinity for a job without this limit."""
        return self._get_limit_s("MaxRuntimeInSeconds") - measure_running_s(self.record.transitions, get_now())

    @property
    def remaining_wait_s(self) -> float:
        """Seconds until MaxWaitTimeInSeconds has passed since the job's creation; infinity for an on-demand job."""
        return self._get_limit_s("MaxWaitTimeInSeconds") - (get_now() - self.created_at).total_seconds()

    def _get_limit_s(self, name: str) -> float:
        return float(self.request.get("StoppingCondition", {}).get(name, math.inf))
