"""Find instance types of SageMaker and their figures, in a dated table with its sources. Needs no network."""

from pipelines.planning.catalogue.instances import (
    Instance,
    find_instance,
    get_family,
    list_instances,
    read_date,
    read_sources,
)

__all__ = [
    "Instance",
    "find_instance",
    "get_family",
    "list_instances",
    "read_date",
    "read_sources",
]
