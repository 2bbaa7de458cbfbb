"""The kinds of jobs there are, and what each does in a run."""

from collections.abc import Callable
from typing import Any

from drydock.job import Job
from drydock.processing_job import ProcessingJob
from drydock.processing_work import ProcessingWork
from drydock.training_job import TrainingJob
from drydock.training_work import TrainingWork
from drydock.transform_job import TransformJob
from drydock.transform_work import TransformWork
from drydock.work import Work

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
