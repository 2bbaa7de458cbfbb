"""The kinds of jobs, and for each kind the class that does the work of a run."""

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

_WORK_CLASSES: dict[type[Job], Callable[..., Work]] = {
    TrainingJob: TrainingWork,
    ProcessingJob: ProcessingWork,
    TransformJob: TransformWork,
}
KINDS = tuple(_WORK_CLASSES)
"""The class of every kind of job."""


def find_kind(name: str) -> type[Any] | None:
    """Return the class of the jobs of a kind, such as TrainingJob for `training`.

    Args:
        name: The kind's name in the store.

    Returns:
        The class. None if the kind is not a kind of jobs: the store has logs of endpoints, too.
    """
    return next((kind for kind in KINDS if kind.api_name.lower() == name), None)


def get_work_class(job: Job) -> Callable[..., Work]:
    """Return the class that does the work of a job.

    To create an object of it, pass the job, the trees of the job's hosts, the executor, and the server's settings.
    """
    return _WORK_CLASSES[type(job)]
