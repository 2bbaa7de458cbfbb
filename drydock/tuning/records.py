"""What is stored of a tuning job: its request, its trials, and the results of its parents."""

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from drydock.jobs.states import Status


class StopCause(StrEnum):
    """Why a tuning job stopped one of its training jobs."""

    PRUNED = "pruned"
    """Early stopping or Hyperband found that the trial is worse than others."""
    MAX_RESOURCE = "max-resource"
    """The trial continued beyond Hyperband's MaxResource."""
    TUNING_ENDED = "tuning-ended"
    """The tuning job was stopped, failed, met a completion criterion or reached MaxRuntimeInSeconds."""


@dataclass
class TrialRecord:
    """One trial: a training job of the tuning job. It is stored before the training job is created.

    Attributes:
        name: Name of the training job.
        values: The tuned hyperparameters, as the training job gets them.
        attempt: 0 for the first training job with these values, 1 for its first retry (RetryStrategy), and so on.
        stop_cause: Why the tuning job stopped the training job; None if it did not.
    """

    name: str
    values: dict[str, str]
    attempt: int = 0
    stop_cause: StopCause | None = None


@dataclass(frozen=True)
class ParentTrial:
    """A training job of a parent tuning job, for a warm start.

    Attributes:
        summary: The training job's entry in the parent's ListTrainingJobsForHyperParameterTuningJob.
        values: The training job's hyperparameters: its own values of the tuned ones, and the static ones of the parent.
        objective: The last value of the objective.
    """

    summary: dict[str, Any]
    values: dict[str, str]
    objective: float


@dataclass(frozen=True)
class Ending:
    """How a tuning job will end, once its training jobs have ended: its status and its FailureReason."""

    status: Status
    reason: str | None = None


@dataclass
class TuningRecord:
    """Everything that is stored of one tuning job. The field names are the keys of the stored JSON.

    Attributes:
        name: HyperParameterTuningJobName.
        arn: The tuning job's ARN.
        request: The request, without its tags.
        tags: The tags. AddTags and DeleteTags change them.
        seed: RandomSeed, or a random number if the request has none.
        created_at: CreationTime.
        modified_at: LastModifiedTime.
        status: HyperParameterTuningJobStatus.
        ending: How the job will end; None while that is not decided. With an ending, no more trials are started.
        ended_at: HyperParameterTuningEndTime.
        reason: FailureReason.
        trials: The trials, in the order of their creation.
        parent_trials: The parents' trials that have an objective, and are Completed or reached Hyperband's MaxResource.
    """

    name: str
    arn: str
    request: dict[str, Any]
    tags: list[dict[str, str]]
    seed: int
    created_at: datetime
    modified_at: datetime
    status: Status = Status.IN_PROGRESS
    ending: Ending | None = None
    ended_at: datetime | None = None
    reason: str | None = None
    trials: list[TrialRecord] = field(default_factory=list)
    parent_trials: list[ParentTrial] = field(default_factory=list)

    def dump(self) -> str:
        """Return the record as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def load(cls, text: str) -> Self:
        """Return the record that `dump` wrote as JSON."""
        content = json.loads(text)
        for name in ("created_at", "modified_at", "ended_at"):
            content[name] = content[name] and datetime.fromisoformat(content[name])
        content["status"] = Status(content["status"])
        if content["ending"]:
            content["ending"] = Ending(Status(content["ending"]["status"]), content["ending"]["reason"])
        content["trials"] = [_load_trial(item) for item in content["trials"]]
        content["parent_trials"] = [ParentTrial(**item) for item in content["parent_trials"]]
        return cls(**content)


def _load_trial(content: dict[str, Any]) -> TrialRecord:
    cause = content["stop_cause"]
    return TrialRecord(**{**content, "stop_cause": StopCause(cause) if cause else None})
