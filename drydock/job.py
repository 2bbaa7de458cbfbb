"""A training job: what was asked for, and what has really happened to it so far."""

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from drydock.metrics import FinalMetrics
from drydock.states import MESSAGES, Phase, Status

# What CreateTrainingJob fills in when the request leaves it out.
REQUEST_DEFAULTS: dict[str, Any] = {
    "EnableNetworkIsolation": False,
    "EnableInterContainerTrafficEncryption": False,
    "EnableManagedSpotTraining": False,
}
DEFAULT_MAX_RUNTIME_S = 86_400
SUMMARY_KEYS = (
    "TrainingJobName",
    "TrainingJobArn",
    "CreationTime",
    "TrainingEndTime",
    "LastModifiedTime",
    "TrainingJobStatus",
    "SecondaryStatus",
)


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


class TrainingJob:
    """One job's record. Every method is atomic: API threads read while the job's own thread writes.

    The public attributes arn, tags, training_job_name and gen_response_object are what moto's tagging and
    Search ask of a training job.
    """

    def __init__(self, request: Mapping[str, Any], account_id: str, region: str, arn: str) -> None:
        self.request = {**REQUEST_DEFAULTS, **{k: v for k, v in request.items() if k != "Tags"}}
        self.request["StoppingCondition"] = {
            "MaxRuntimeInSeconds": DEFAULT_MAX_RUNTIME_S,
            **request.get("StoppingCondition", {}),
        }
        self.training_job_name: str = request["TrainingJobName"]
        self.account_id, self.region, self.arn = account_id, region, arn
        self.tags: list[dict[str, str]] = list(request.get("Tags", []))
        self.metrics = FinalMetrics(request["AlgorithmSpecification"].get("MetricDefinitions", []))
        self.stop_requested = threading.Event()
        self._lock = threading.RLock()
        self._status = Status.IN_PROGRESS
        self._transitions = [Transition(Phase.STARTING, now(), MESSAGES[Phase.STARTING])]
        self.creation_time = self._transitions[0].start
        self.last_modified_time = self.creation_time
        self.training_start_time: datetime | None = None
        self.training_end_time: datetime | None = None
        self._failure_reason: str | None = None
        self._model_uri: str | None = None

    @property
    def training_job_status(self) -> Status:
        """TrainingJobStatus as of now."""
        return self._status

    @property
    def phase(self) -> Phase:
        """SecondaryStatus as of now."""
        return self._transitions[-1].phase

    @property
    def runtime_left_s(self) -> float:
        """Seconds until MaxRuntimeInSeconds has passed since TrainingStartTime."""
        limit = float(self.request["StoppingCondition"]["MaxRuntimeInSeconds"])
        return limit - (now() - (self.training_start_time or now())).total_seconds()

    def enter(self, phase: Phase, message: str | None = None) -> None:
        """The job is in phase from now on; entering the phase it is in only changes the message."""
        with self._lock:
            moment = self.last_modified_time = now()
            text = message or MESSAGES[phase]
            if phase is self.phase:
                self._transitions[-1].message = text
                return
            self._transitions[-1].end = moment
            self._transitions.append(Transition(phase, moment, text))
            if phase is Phase.DOWNLOADING:
                # SageMaker's TrainingStartTime is when the instance is there: billing includes the download.
                self.training_start_time = moment

    def advance(self, phase: Phase) -> bool:
        """The job is in phase, unless it is being stopped. Returns whether it goes on."""
        with self._lock:
            goes_on = self._status is Status.IN_PROGRESS
            if goes_on:
                self.enter(phase)
            return goes_on

    def stopping(self) -> None:
        """The job is Stopping, unless it has ended."""
        with self._lock:
            if self._status is Status.IN_PROGRESS:
                self._status = Status.STOPPING
                self.enter(Phase.STOPPING)

    def request_stop(self) -> Status:
        """The job's thread has been told to stop it, unless it ended. Returns the former status."""
        with self._lock:
            before = self._status
            if not before.ended:
                self.stopping()
                self.stop_requested.set()
            return before

    def has_model(self, uri: str) -> None:
        """ModelArtifacts names uri (S3) from now on."""
        with self._lock:
            self._model_uri = uri

    def end(self, status: Status, phase: Phase, reason: str | None = None) -> None:
        """The job has ended as status; phase and reason say why. A second end changes nothing."""
        with self._lock:
            if self._status.ended:
                return
            self.enter(phase)
            self._transitions[-1].end = self.last_modified_time
            if self.training_start_time is not None:
                self.training_end_time = self.last_modified_time
            self._failure_reason = reason
            # The status comes last: who sees an end sees all of it.
            self._status = status

    def complete(self) -> None:
        """The job is Completed, or Stopped where a stop was asked for before its end."""
        with self._lock:
            stopped = self._status is Status.STOPPING
            status, phase = (Status.STOPPED, Phase.STOPPED) if stopped else (Status.COMPLETED, Phase.COMPLETED)
            self.end(status, phase)

    def describe(self) -> dict[str, Any]:
        """Return what DescribeTrainingJob answers."""
        with self._lock:
            answer = {
                **self.request,
                "TrainingJobArn": self.arn,
                "TrainingJobStatus": str(self._status),
                "SecondaryStatus": str(self.phase),
                "SecondaryStatusTransitions": [line.describe() for line in self._transitions],
                "CreationTime": self.creation_time,
                "LastModifiedTime": self.last_modified_time,
                **self._times(),
                "FailureReason": self._failure_reason,
                "ModelArtifacts": None if self._model_uri is None else {"S3ModelArtifacts": self._model_uri},
                "FinalMetricDataList": self.metrics.describe() or None,
            }
        return {key: value for key, value in answer.items() if value is not None}

    def gen_response_object(self) -> dict[str, Any]:
        """Return what Search shows of the job (moto's name for it)."""
        return self.describe()

    def summary(self) -> dict[str, Any]:
        """Return the job's line in ListTrainingJobs."""
        shown = self.describe()
        return {key: shown[key] for key in SUMMARY_KEYS if key in shown}

    def _times(self) -> dict[str, Any]:
        start, end = self.training_start_time, self.training_end_time
        times: dict[str, Any] = {"TrainingStartTime": start, "TrainingEndTime": end}
        if start is not None and end is not None:
            # Whole seconds, rounded up, so that nobody divides by zero for the saving of a very short job.
            seconds = max(1, math.ceil((end - start).total_seconds()))
            times |= {"TrainingTimeInSeconds": seconds, "BillableTimeInSeconds": seconds}
        return times
