"""Measure the errors of a regression from sums by day, and estimate them for days without labels."""

from __future__ import annotations

import numpy as np
from scipy import stats

from pipelines.monitoring.drift.counts import Array
from pipelines.monitoring.drift.day_values import DayValues, MeanError, estimate_error
from pipelines.monitoring.drift.finding import Measure
from pipelines.monitoring.drift.performance import Performance, build_day_values

ESTIMATED_ERRORS: tuple[Measure, Measure] = ("estimated_mae", "estimated_rmse")
"""Names of the metrics that `estimate_errors` returns."""


def measure_errors(rows: Array, absolute_sums: Array, squared_sums: Array, alpha: float) -> dict[Measure, Performance]:
    """Measure the mean absolute error of a regression with its interval. Empty if there are fewer than two rows.

    The standard error is computed from the variance between days, because the rows of a day are correlated.

    Args:
        rows: rows with score and label of each day, oldest day first; shape (days,), each 1 or more.
        absolute_sums: sum of the absolute errors of each day; shape (days,).
        squared_sums: sum of the squared errors of each day; shape (days,).
        alpha: probability beyond each end of the interval, such as 0.025 for a 95 % interval.
    """
    total, days = float(rows.sum()), len(rows)
    if total < 2:
        return {}
    value = float(absolute_sums.sum() / total)
    row_se = float(np.sqrt(max(squared_sums.sum() / total - value**2, 0.0) / total))
    leave_one_out = (absolute_sums.sum() - absolute_sums) / (total - rows) if days > 1 else np.zeros(1)
    values = build_day_values(leave_one_out, row_se)
    return {"mae": _build_performance(value, estimate_error([values]), round(total), values, row_se, alpha)}


def estimate_errors(rows: Array, losses: Array, alpha: float) -> dict[Measure, Performance]:
    """Estimate the mean absolute error and the RMSE from estimated errors of the rows, without labels.

    This is direct loss estimation (DLE, NannyML). Empty if there are fewer than two rows, or if all estimated squared
    errors are 0. `Performance.days`, with which `compare_metrics` compares two estimates, depends on the estimates
    alone: neither estimate uses labels.

    Args:
        rows: rows with a score of each day, oldest day first; shape (days,), each 1 or more.
        losses: for each day, the sums of the estimated absolute errors, of the estimated squared errors, and of the
            squares of both; shape (days, 4).
        alpha: probability beyond each end of the interval, such as 0.025 for a 95 % interval.

    Returns:
        The estimates. The standard error of `estimated_mae` is that of the mean absolute error that will be measured
        once the labels are known. The standard error of `estimated_rmse` is that of the estimate, not of the RMSE that
        will be measured: the squares of single errors vary more than the models predict.
    """
    total, (absolute_sum, squared_sum, *square_sums) = float(rows.sum()), losses.sum(axis=0)
    if total < 2 or not squared_sum > 0:
        return {}
    mae, rmse = absolute_sum / total, np.sqrt(squared_sum / total)
    other_rows = total - rows
    leave_one_out = (
        [(absolute_sum - losses[:, 0]) / other_rows, np.sqrt((squared_sum - losses[:, 1]) / other_rows)]
        if len(rows) > 1
        else [np.zeros(1)] * 2
    )
    variances = np.maximum(np.array(square_sums) / total - np.array([mae, rmse**2]) ** 2, 0.0)
    row_ses = np.sqrt(variances / total) / (1.0, 2 * rmse)  # the error of the square root, by the delta method
    label_ses = np.sqrt(max(squared_sum / total - mae**2, 0.0) / total), 0.0
    return {
        name: _build_estimate(float(value), values, float(row_se), float(label_se), round(total), alpha)
        for name, value, values, row_se, label_se in zip(
            ESTIMATED_ERRORS, (mae, rmse), leave_one_out, row_ses, label_ses, strict=True
        )
    }


def _build_estimate(
    value: float, leave_one_out: Array, row_se: float, label_se: float, rows: int, alpha: float
) -> Performance:
    """Build an estimate from the metric without each day; its standard error is at least `label_se`."""
    values = build_day_values(leave_one_out, row_se)
    error = estimate_error([values])
    error = MeanError(max(error.se, label_se), error.degrees_of_freedom)
    return _build_performance(value, error, rows, values, row_se, alpha)


def _build_performance(
    value: float, error: MeanError, rows: int, days: DayValues, row_se: float, alpha: float
) -> Performance:
    half_width = error.se * float(stats.t.isf(alpha, error.degrees_of_freedom))
    return Performance(
        value, max(value - half_width, 0.0), value + half_width, error.se, rows, days=days, row_se=row_se
    )
