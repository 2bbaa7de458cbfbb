"""Turn rows of the ledger into past jobs with their predictions, from which corrections are learned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from pipelines.costs.charges import HOUR_S
from pipelines.instances.catalogue import get_family
from pipelines.planning.recommendation.correction import Observation
from pipelines.planning.recommendation.measured import build_measured_workload
from pipelines.planning.recommendation.past_jobs import (
    Row,
    compute_work_s,
    find_type,
    get_model_or_task,
    is_trial,
    is_usable,
    read_figure,
)
from pipelines.planning.recommendation.workloads import BASES, Basis, Estimate, Machines

MAX_EARLIER_JOBS = 20
"""Number of earlier jobs of a model from which a past job is predicted."""


def list_observations(rows: Sequence[Row]) -> list[Observation]:
    """List the past trainings with their predictions, oldest first.

    A job that was planned has its prediction in the ledger. For any other job, the prediction is computed from the
    earlier jobs of its model, and from the size of its own data if that is known. A job without any prediction, such
    as the first one of a model, is left out. So are trials of a tuning, and rows that are not a completed training
    with all figures, on a known instance type.

    Args:
        rows: rows of the ledger, oldest first.
    """
    earlier_jobs: dict[str, list[Row]] = defaultdict(list)
    observations = []
    for row in rows:
        if not is_usable(row) or is_trial(row):
            continue
        model_or_task = get_model_or_task(row)
        predicted_s, predicted_usd, basis = _predict(row, earlier_jobs[model_or_task])
        if predicted_s:
            observations.append(
                Observation(
                    model=model_or_task,
                    family=get_family(row["instance_type"]),
                    predicted_s=predicted_s,
                    actual_s=compute_work_s(row),
                    predicted_usd=predicted_usd,
                    actual_usd=row["cost_usd"] or None,
                    basis=basis,
                )
            )
        earlier_jobs[model_or_task] = [*earlier_jobs[model_or_task], row][-MAX_EARLIER_JOBS:]
    return observations


def _predict(row: Row, earlier_jobs: Sequence[Row]) -> tuple[float | None, float | None, Basis]:
    """Return the uncorrected prediction of a job's time and cost, and its basis; a value that is not known is None."""
    stored_s = read_figure(row, "uncorrected_s")
    if stored_s:
        basis: Basis = next((name for name in BASES if name == row.get("prediction_basis")), "formula")
        return stored_s, read_figure(row, "uncorrected_usd"), basis
    instance = find_type(row)
    if not earlier_jobs or instance is None:
        return None, None, "measured"
    workload = build_measured_workload(earlier_jobs, get_model_or_task(row), read_figure(row, "input_bytes"))
    estimate = workload.estimate(Machines(instance, int(row["instance_count"])))
    if not isinstance(estimate, Estimate):
        return None, None, "measured"
    cost_share = 1 - _find_saving(earlier_jobs) if row["spot"] else 1.0
    usd_h = (read_figure(row, "price_usd_h") or 0.0) * row["instance_count"] * cost_share
    return estimate.seconds, usd_h * estimate.seconds / HOUR_S or None, estimate.basis


def _find_saving(rows: Iterable[Row]) -> float:
    """Return the median share of the cost that spot saved, over the jobs that ran on spot; 0 if none did."""
    savings = [read_figure(row, "saving") for row in rows if row["spot"]]
    return median([saving for saving in savings if saving is not None] or [0.0])
