"""The record of a job: everything that is stored of the job."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from drydock.jobs.states import MESSAGES, Phase, Status

# SageMaker's default of MaxRuntimeInSeconds.
DEFAULT_MAX_RUNTIME_S = 86_400
SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    kind TEXT, account TEXT, region TEXT, name TEXT, created TEXT, record TEXT,
    PRIMARY KEY (kind, account, region, name)
);
CREATE TABLE IF NOT EXISTS heartbeat (id INTEGER PRIMARY KEY CHECK (id = 1), moment TEXT);
"""


def get_now() -> datetime:
    """Return the current time, in UTC."""
    return datetime.now(UTC)


@dataclass
class Transition:
    """One entry of SecondaryStatusTransitions: a phase. Its end is None while the phase lasts."""

    phase: Phase
    start: datetime
    message: str
    end: datetime | None = None

    def describe(self) -> dict[str, Any]:
        """Return the entry as the API shows it."""
        entry = {"Status": str(self.phase), "StartTime": self.start, "StatusMessage": self.message}
        return entry if self.end is None else {**entry, "EndTime": self.end}


@dataclass(frozen=True)
class ParentTuning:
    """The tuning job that a training job belongs to.

    Attributes:
        arn: ARN of the tuning job.
        metric: Name of the metric that is the tuning job's objective.
    """

    arn: str
    metric: str


@dataclass
class Record:
    """Everything that is stored of one job. The field names are the keys of the stored JSON.

    Attributes:
        request: The request, with the API's defaults filled in.
        arn: The job's ARN.
        tags: The job's tags; AddTags and DeleteTags change them.
        transitions: The phases that the job went through, in order; never empty.
        modified: When the record last changed.
        billable_fraction: Billable seconds per training second, above 0 and at most 1.
        status: TrainingJobStatus, ProcessingJobStatus or TransformJobStatus.
        reason: FailureReason.
        message: ExitMessage of a processing job.
        artifacts: S3ModelArtifacts.
        command_end: Why the command ended (a value of `execution.supervise.Cause`), and its exit code. It is set before
            the results are uploaded; None until then, and after an interruption or a shutdown of the server.
        metrics: The last value of each metric, and when it was logged, by the metric's name.
        model: The container of a transform job's model, as it was when the job was created; None for other jobs.
        tuning: The tuning job that started the training job; None for other jobs.
        objective_values: All values of the tuning job's objective in the log, in order; None for one that is not a
            finite number. Empty for jobs that no tuning job started.
    """

    request: dict[str, Any]
    arn: str
    tags: list[dict[str, str]]
    transitions: list[Transition]
    modified: datetime
    billable_fraction: float
    status: Status = Status.IN_PROGRESS
    reason: str | None = None
    message: str | None = None
    artifacts: str | None = None
    command_end: tuple[str, int] | None = None
    metrics: dict[str, tuple[float, datetime]] = field(default_factory=dict)
    model: dict[str, Any] | None = None
    tuning: ParentTuning | None = None
    objective_values: list[float | None] = field(default_factory=list)

    def dump(self) -> str:
        """Return the record as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def load(cls, text: str) -> "Record":
        """Return the record that `dump` wrote as JSON."""
        content = json.loads(text)
        content["transitions"] = [_load_transition(entry) for entry in content["transitions"]]
        content["modified"] = datetime.fromisoformat(content["modified"])
        content["status"] = Status(content["status"])
        content["command_end"] = tuple(content["command_end"]) if content["command_end"] else None
        content["metrics"] = {
            name: (value, datetime.fromisoformat(logged_at)) for name, (value, logged_at) in content["metrics"].items()
        }
        content["tuning"] = ParentTuning(**content["tuning"]) if content.get("tuning") else None
        return cls(**content)


def create_record(request: Mapping[str, Any], arn: str, billable_fraction: float = 1.0) -> Record:
    """Return the record of a new job, whose phase is `Starting`.

    Args:
        request: The request, with the API's defaults filled in.
        arn: The job's ARN.
        billable_fraction: Billable seconds per training second, above 0 and at most 1.
    """
    request_without_tags = {key: value for key, value in request.items() if key != "Tags"}
    first_transition = Transition(Phase.STARTING, get_now(), MESSAGES[Phase.STARTING])
    tags = list(request.get("Tags", []))
    return Record(request_without_tags, arn, tags, [first_transition], first_transition.start, billable_fraction)


def add_default_runtime(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request with the API's default MaxRuntimeInSeconds, unless the request has its own."""
    condition = {"MaxRuntimeInSeconds": DEFAULT_MAX_RUNTIME_S, **request.get("StoppingCondition", {})}
    return {**request, "StoppingCondition": condition}


def measure_running_s(transitions: list[Transition], until: datetime) -> float:
    """Return the seconds for which the job had instances, without the time in which it waited for capacity.

    Args:
        transitions: The job's phases, in order.
        until: The moment that is used as the end of a phase that has not ended.
    """
    total_s, has_instances = 0.0, False
    for transition in transitions:
        # A job that is being stopped still has the instances that it had before.
        has_instances = transition.phase.has_instances or (has_instances and transition.phase is Phase.STOPPING)
        total_s += ((transition.end or until) - transition.start).total_seconds() if has_instances else 0.0
    return total_s


def _load_transition(entry: dict[str, Any]) -> Transition:
    end = entry["end"] and datetime.fromisoformat(entry["end"])
    return Transition(Phase(entry["phase"]), datetime.fromisoformat(entry["start"]), entry["message"], end)
