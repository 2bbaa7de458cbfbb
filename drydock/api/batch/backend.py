"""Extend moto's AWS Batch by the queues for training jobs."""

from typing import Any

from moto.batch import urls
from moto.batch.models import BatchBackend, batch_backends

from drydock.api.batch.responses import ServiceJobResponse
from drydock.batch.queues import BatchQueues
from drydock.moto_registry import bind_arguments


class ServiceJobBackend(BatchBackend):
    """moto's AWS Batch of one account and region, with the queues for training jobs.

    Args:
        queues: The queues of all accounts and regions.
        region_name: The region.
        account_id: The account.
    """

    def __init__(self, queues: BatchQueues, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.queues = queues

    @property
    def url_bases(self) -> list[str]:
        """The host names at which moto serves AWS Batch."""
        return list(urls.url_bases)

    @property
    def url_paths(self) -> dict[str, Any]:
        """All paths of AWS Batch, with the handler that also answers requests about queues for training jobs."""
        return {"/v1/<path:operation>": ServiceJobResponse.dispatch}


def install(queues: BatchQueues) -> None:
    """Make moto use `ServiceJobBackend`."""
    batch_backends.clear()
    batch_backends.backend = bind_arguments(ServiceJobBackend, queues)
