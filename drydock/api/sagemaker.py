"""Replace moto's SageMaker by drydock's: `install` sets the class of moto's SageMaker backends.

moto reads this class from a registry. moto creates an object of it for each account and region, and finds in it the
handlers of URLs.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from moto.sagemaker import urls
from moto.sagemaker.models import sagemaker_backends

from drydock.api.backend import DrydockBackend
from drydock.api.responses import DrydockResponse, InventingResponse
from drydock.endpoints.registry import Endpoints
from drydock.execution.queue import JobQueue
from drydock.execution.recovery import Heartbeat
from drydock.feature_store.registry import FeatureGroups
from drydock.jobs.job import Job
from drydock.jobs.kinds import find_kind
from drydock.jobs.record import SCHEMA, Record
from drydock.jobs.states import Status
from drydock.moto_registry import bind_arguments
from drydock.notebooks.registry import Notebooks
from drydock.store import Store
from drydock.tuning.registry import TuningJobs


class HttpBackend(DrydockBackend):
    """The backend, with the URLs and the handler of its HTTP requests."""

    @property
    def url_bases(self) -> list[str]:
        """The host names at which moto serves SageMaker."""
        return list(urls.url_bases)

    @property
    def url_paths(self) -> dict[str, Any]:
        """The only path of SageMaker's protocol, with drydock's handler."""
        return {"/$": (InventingResponse if self.gives_invented_answers else DrydockResponse).dispatch}


def install(
    queue: JobQueue,
    store: Store,
    endpoints: Endpoints,
    feature_groups: FeatureGroups,
    tuning_jobs: TuningJobs,
    notebooks: Notebooks,
) -> None:
    """Make moto's SageMaker use drydock's backends, load the stored jobs, and resume those that have not ended.

    Args:
        queue: Runs the jobs.
        store: Storage of the jobs.
        endpoints: The endpoints of all accounts and regions.
        feature_groups: The feature groups of all accounts and regions.
        tuning_jobs: The tuning jobs of all accounts and regions.
        notebooks: The notebook instances and Studio apps of all accounts and regions.
    """
    sagemaker_backends.clear()
    sagemaker_backends.backend = bind_arguments(
        HttpBackend, queue, store, endpoints, feature_groups, tuning_jobs, notebooks
    )
    store.create_tables(SCHEMA)
    last_alive_at = Heartbeat(store).read_last()
    rows = store.query("SELECT kind, account, region, record FROM jobs ORDER BY created, name")
    jobs = [
        cast(HttpBackend, sagemaker_backends[account][region]).restore(kind, Record.load(text))
        for kind, account, region, text in rows
    ]
    queue.resume_logs(_find_job)
    for job in jobs:
        if not job.status.is_final:
            queue.resume(job, last_alive_at)


def _find_job(kind: str, account: str, region: str, name: str) -> Job | None:
    job_class = find_kind(kind)
    if job_class is None:
        return None
    return cast(HttpBackend, sagemaker_backends[account][region]).find_job(job_class, name)


def iter_jobs() -> Iterator[Job]:
    """Yield every job of all accounts and regions."""
    for _, _, backend in list(sagemaker_backends.iter_backends()):
        yield from cast(HttpBackend, backend).list_jobs()


def count_jobs_by_status() -> dict[str, int]:
    """Return how many jobs of all accounts and regions have each status."""
    counts: Counter[str] = Counter({str(status): 0 for status in Status})
    counts.update(str(job.status) for job in iter_jobs())
    return dict(counts)
