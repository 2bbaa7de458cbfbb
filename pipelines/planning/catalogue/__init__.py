"""Find instance types of SageMaker and their figures, in a dated table with its sources. Needs no network."""

from pipelines.planning.catalogue.instances import (
    Instance,
    RetiredTypeError,
    find_instance,
    get_family,
    list_instances,
    read_date,
    read_sources,
)

__all__ = [
    "Instance",
    "RetiredTypeError",
    "find_instance",
    "get_family",
    "list_instances",
    "read_date",
    "read_sources",
]
