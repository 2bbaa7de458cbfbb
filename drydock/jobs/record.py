"""What the store keeps of a job."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from drydock.jobs.states import MESSAGES, Phase, Status

DEFAULT_MAX_RUNTIME_S = 86_400
SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    kind TEXT, account TEXT, region TEXT, name TEXT, created TEXT, record TEXT,
    PRIMARY KEY (kind, account, region, name)
);
CREATE TABLE IF NOT EXISTS heartbeat (id INTEGER PRIMARY KEY CHECK (id = 1), moment TEXT);
"""


def now() -> datetime:
    """Return the moment, in UTC."""
    return datetime.now(UTC)


@dataclass
class Transition:
    """One line of SecondaryStatusTransitions; open until the next begins."""

    phase: Phase
    start: datetime
    message: str
    end: datetime | None = None

    def describe(self) -> dict[str, Any]:
        """Return the line as the API shows it."""
        line = {"Status": str(self.phase), "StartTime": self.start, "StatusMessage": self.message}
        return line if self.end is None else {**line, "EndTime": self.end}


@dataclass
class Record:
    """One job.

    Attributes:
        request: The request, with the API's defaults filled in.
        arn: The job's ARN.
        tags: AddTags and DeleteTags change them.
        transitions: What the job went through, in order; never empty.
        status: TrainingJobStatus, ProcessingJobStatus or TransformJobStatus.
        modified: The last change.
        reason: FailureReason.
        message: ExitMessage of a processing job.
        artifacts: S3ModelArtifacts.
        exited: Why and with which code the command ended, once it has: what is left to do is to upload.
        metrics: The last value of each metric, and its moment.
        billable_fraction: Billable seconds per training second.
        model: The container of a transform job's model, as it was when the job was created.
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
    exited: tuple[str, int] | None = None
    metrics: dict[str, tuple[float, datetime]] = field(default_factory=dict)
    model: dict[str, Any] | None = None

    def dump(self) -> str:
        """Return the record as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def load(cls, text: str) -> "Record":
        """Return the record that `dump` wrote."""
        content = json.loads(text)
        content["transitions"] = [_transition(line) for line in content["transitions"]]
        content["modified"] = datetime.fromisoformat(content["modified"])
        content["status"] = Status(content["status"])
        content["exited"] = tuple(content["exited"]) if content["exited"] else None
        content["metrics"] = {
            name: (value, datetime.fromisoformat(moment)) for name, (value, moment) in content["metrics"].items()
        }
        return cls(**content)


def new_record(request: Mapping[str, Any], arn: str, billable_fraction: float = 1.0) -> Record:
    """Return the record of a job that begins now; request has the API's defaults."""
    asked = {key: value for key, value in request.items() if key != "Tags"}
    first = Transition(Phase.STARTING, now(), MESSAGES[Phase.STARTING])
    return Record(asked, arn, list(request.get("Tags", [])), [first], first.start, billable_fraction)


def limited(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request with the API's own MaxRuntimeInSeconds, where it says none."""
    condition = {"MaxRuntimeInSeconds": DEFAULT_MAX_RUNTIME_S, **request.get("StoppingCondition", {})}
    return {**request, "StoppingCondition": condition}


def _transition(line: dict[str, Any]) -> Transition:
    end = line["end"] and datetime.fromisoformat(line["end"])
    return Transition(Phase(line["phase"]), datetime.fromisoformat(line["start"]), line["message"], end)


def running_s(transitions: list[Transition], until: datetime) -> float:
    """Return the seconds in which the job had instances: waiting for capacity counts nothing."""
    total, running = 0.0, False
    for line in transitions:
        running = line.phase.runs or (running and line.phase is Phase.STOPPING)
        total += ((line.end or until) - line.start).total_seconds() if running else 0.0
    return total
