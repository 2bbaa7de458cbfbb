"""Define the targets of the key figures: section `key_figures` of params.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipelines.contract import Spec

Share = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Targets(Spec):
    """The targets that the key figures are compared with. A figure whose target is null is only reported."""

    min_job_success: Share | None = 0.95
    """Smallest share of the ended jobs that completed, without jobs that were stopped on request, 0 to 1."""
    max_queue_wait_s: Amount | None = 1_800.0
    """Largest 95th percentile of the wait of a job in a queue and for its first instances, seconds."""
    max_priority_queue_wait_s: Amount | None = 300.0
    """Largest 95th percentile of the wait of a job with priority high in a queue and for its first instances,
    seconds."""
    min_spot_share: Share | None = 0.5
    """Smallest share of the instance hours of trainings that ran on spot, 0 to 1."""
    min_spot_saving: Share | None = None
    """Smallest share of their on-demand cost that trainings on spot saved, 0 to 1."""
    min_restored_checkpoints: Share | None = 1.0
    """Smallest share, 0 to 1, of the interrupted trainings that restored a checkpoint after each interruption.
    Trainings that reported no start after an interruption are left out."""
    min_gpu_use: Share | None = 0.7
    """Smallest mean utilization of the GPUs of jobs, 0 to 1."""
    max_experiment_usd: Amount | None = None
    """Highest mean cost of an experiment, USD."""
    min_experiments_per_person_week: Amount | None = None
    """Smallest mean number of completed experiments of a person in a week."""
    max_result_time_s: Amount | None = None
    """Longest median time from the request of an experiment to its result, seconds."""
