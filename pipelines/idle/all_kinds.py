"""Build the kinds of resources that a sweep checks."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.idle.endpoints import EndpointKind
from pipelines.idle.kinds import Kind
from pipelines.idle.names import KindName
from pipelines.idle.notebooks import AppKind, NotebookKind
from pipelines.idle.processing_jobs import ProcessingKind
from pipelines.serving.undeployment import Endpoints


def build_kinds(endpoints: Endpoints, names: Sequence[KindName], cpu_percent: float) -> list[Kind]:
    """Return the kinds of the given names, in their order.

    Args:
        endpoints: the endpoints of the region, with the clients of AWS.
        names: names of the kinds; repeated names count once.
        cpu_percent: CPU utilization from which a notebook instance or a processing job counts as used, percent of one
            core.
    """
    sagemaker, cloudwatch = endpoints.sagemaker, endpoints.cloudwatch
    kinds: dict[KindName, Kind] = {
        "notebook": NotebookKind(sagemaker, cloudwatch, cpu_percent),
        "app": AppKind(sagemaker),
        "endpoint": EndpointKind(endpoints),
        "processing": ProcessingKind(sagemaker, cloudwatch, cpu_percent),
    }
    return [kinds[name] for name in dict.fromkeys(names)]
