"""The timetable of the DAGs that a published partition starts."""

from __future__ import annotations

from airflow.sdk import Asset, IdentityMapper, PartitionedAssetTimetable


def build_publication_timetable(dataset: str) -> PartitionedAssetTimetable:
    """Build the timetable of a DAG that runs for each partition of a dataset when it is published, or published again.

    Args:
        dataset: dataset whose asset gets an event for each publication.
    """
    asset = Asset(name=dataset, uri=f"x-leeway://lake/{dataset}")
    return PartitionedAssetTimetable(assets=asset, default_partition_mapper=IdentityMapper())
