"""Build all key figures from the ledger of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.costs.figures import experiments, jobs
from pipelines.costs.figures.key_figure import KeyFigure, Unit
from pipelines.costs.figures.measurement import Evidence, Measurement, Row
from pipelines.costs.figures.targets import Targets
from pipelines.costs.periods import Period
from pipelines.costs.row_checks import check_rows


@dataclass(frozen=True)
class Definition:
    """The definition of a key figure.

    Attributes:
        name: short name.
        title: name for people.
        unit: unit of its value.
        target: name of a field of `Targets`. If the name begins with `min_`, the value must be at least the target;
            otherwise at most.
        measure: function that computes the value.
        method: how the value is computed, in a sentence.
    """

    name: str
    title: str
    unit: Unit
    target: str
    measure: Callable[[Evidence], Measurement]
    method: str


DEFINITIONS = (
    Definition(
        "job_success", "job success", "share", "min_job_success", jobs.measure_job_success,
        "completed jobs / ended jobs, without jobs that were stopped on request",
    ),
    Definition(
        "queue_wait", "wait in the queue", "seconds", "max_queue_wait_s", jobs.measure_queue_wait,
        "95th percentile of the wait in a queue of AWS Batch and from a job's creation to its first instances",
    ),
    Definition(
        "priority_queue_wait", "wait with high priority", "seconds", "max_priority_queue_wait_s",
        jobs.measure_priority_queue_wait, "wait in the queue, only of jobs with priority high",
    ),
    Definition(
        "spot_share", "spot share", "share", "min_spot_share", jobs.measure_spot_share,
        "instance hours of trainings on spot / instance hours of all trainings",
    ),
    Definition(
        "spot_saving", "saved by spot", "share", "min_spot_saving", jobs.measure_spot_saving,
        "1 - cost / on-demand cost of the trainings on spot",
    ),
    Definition(
        "restored_checkpoints", "restored checkpoints", "share", "min_restored_checkpoints",
        jobs.measure_restored_checkpoints,
        "interrupted trainings that restored a checkpoint after each interruption / interrupted trainings whose script "
        "started again",
    ),
    Definition(
        "gpu_use", "GPU utilization", "share", "min_gpu_use", jobs.measure_gpu_use,
        "mean GPUUtilization / GPUs of the instance, weighted by GPU hours",
    ),
    Definition(
        "experiment_usd", "cost of an experiment", "usd", "max_experiment_usd", experiments.measure_experiment_usd,
        "cost of all trainings / experiments (such as DAG runs) with a completed training",
    ),
    Definition(
        "experiments_per_person_week", "experiments of a person", "per week", "min_experiments_per_person_week",
        experiments.measure_experiments_per_person_week,
        "completed experiments of persons / persons / weeks",
    ),
    Definition(
        "result_time", "request to result", "seconds", "max_result_time_s", experiments.measure_result_time,
        "median time from the request of an experiment's first job to the end of its last one",
    ),
)  # fmt: skip
"""The key figures, in the order of the report."""


def build_key_figures(rows: Sequence[Row], period: Period, targets: Targets) -> list[KeyFigure]:
    """Compute the key figures of a period, and compare them with the targets.

    Args:
        rows: rows of the ledger of jobs; those outside of the period are left out.
        period: the time.
        targets: the targets.

    Raises:
        DataError: a row of the ledger is damaged. A retry cannot help.
    """
    check_rows(rows)
    evidence = Evidence(period.select(rows), period)
    return [_build(definition, definition.measure(evidence), targets) for definition in DEFINITIONS]


def _build(definition: Definition, measurement: Measurement, targets: Targets) -> KeyFigure:
    target, is_minimum = getattr(targets, definition.target), definition.target.startswith("min_")
    value = None if measurement.value is None else round(measurement.value, 6)
    is_known = value is not None and target is not None
    return KeyFigure(
        name=definition.name,
        title=definition.title,
        unit=definition.unit,
        value=value,
        target=target,
        is_minimum=is_minimum,
        is_met=(value >= target if is_minimum else value <= target) if is_known else None,
        jobs=measurement.jobs,
        method=definition.method,
        reason=measurement.reason,
    )
