"""The kinds of jobs there are, and what each does in a run."""

from collections.abc import Callable
from typing import Any

from drydock.jobs.job import Job
from drydock.jobs.processing.job import ProcessingJob
from drydock.jobs.processing.work import ProcessingWork
from drydock.jobs.training.job import TrainingJob
from drydock.jobs.training.work import TrainingWork
from drydock.jobs.transform.job import TransformJob
from drydock.jobs.transform.work import TransformWork
from drydock.jobs.work import Work

_WORKS: dict[type[Job], Callable[..., Work]] = {
    TrainingJob: TrainingWork,
    ProcessingJob: ProcessingWork,
    TransformJob: TransformWork,
}
KINDS = tuple(_WORKS)
"""Every kind."""


def kind_of(name: str) -> type[Any]:
    """Return the kind that the store calls by that name."""
    return next(kind for kind in KINDS if kind.word.lower() == name)


def work_of(job: Job) -> Callable[..., Work]:
    """Return what makes one run's work: of the job, its trees, the executor and the settings."""
    return _WORKS[type(job)]
