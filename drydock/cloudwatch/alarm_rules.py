"""Rules for alarms: those of CloudWatch that moto lacks, and what drydock can evaluate."""

import math
from collections.abc import Mapping
from typing import Any

from moto.cloudwatch.exceptions import InvalidParameterCombination, InvalidParameterValue, ValidationError

from drydock.cloudwatch.statistics import SIMPLE_STATISTICS, read_percent

SHORT_PERIODS_S = (10, 20, 30)
"""Periods of an alarm below a minute, seconds. Longer ones are whole minutes."""
DAY_S, WEEK_S, LONG_PERIOD_S = 86_400, 604_800, 3_600
"""Seconds. All periods of an alarm together may last a day, or a week if each period lasts at least an hour."""
COMPARISONS = {
    "GreaterThanThreshold": lambda value, threshold: value > threshold,
    "GreaterThanOrEqualToThreshold": lambda value, threshold: value >= threshold,
    "LessThanThreshold": lambda value, threshold: value < threshold,
    "LessThanOrEqualToThreshold": lambda value, threshold: value <= threshold,
}
# Values of TreatMissingData.
MISSING_DATA = ("breaching", "notBreaching", "ignore", "missing")
# The parameters that an alarm on one metric must have, by the names of moto's arguments.
_REQUIRED = {
    "namespace": "Namespace",
    "metric_name": "MetricName",
    "comparison_operator": "ComparisonOperator",
    "threshold": "Threshold",
    "period": "Period",
    "evaluation_periods": "EvaluationPeriods",
}


def check_alarm(arguments: Mapping[str, Any]) -> None:
    """Check that drydock can evaluate an alarm.

    Args:
        arguments: The arguments of moto's `put_metric_alarm`.

    Raises:
        ServiceException: CloudWatch refuses the alarm, or drydock cannot evaluate it. A retry cannot help.
    """
    is_anomaly = arguments.get("threshold_metric_id") is not None
    if arguments.get("metric_data_queries") or arguments.get("rule") or is_anomaly:
        raise ValidationError(
            "drydock does not evaluate alarms on expressions, on several metrics, on other alarms or on anomalies: "
            "use an alarm on one metric."
        )
    for name, member in _REQUIRED.items():
        if arguments.get(name) in (None, ""):
            raise ValidationError(f"The parameter {member} is required.")
    _check_statistic(arguments.get("statistic"), arguments.get("extended_statistic"))
    _check_choice("ComparisonOperator", arguments["comparison_operator"], tuple(COMPARISONS))
    if (missing_data := arguments.get("treat_missing_data")) is not None:
        _check_choice("TreatMissingData", missing_data, MISSING_DATA)
    if not math.isfinite(threshold := float(arguments["threshold"])):
        raise InvalidParameterValue(f"The value {threshold} for parameter Threshold is invalid.")
    _check_periods(int(arguments["period"]), int(arguments["evaluation_periods"]), arguments.get("datapoints_to_alarm"))


def find_evaluation_problem(alarm: Any) -> str:
    """Return why drydock does not evaluate an alarm of moto; "" if it does.

    `check_alarm` refuses such an alarm, but an earlier version of drydock may have stored it.
    """
    statistic = str(alarm.statistic or alarm.extended_statistic or "")
    if alarm.rule or alarm.metric_data_queries:
        return "drydock evaluates only alarms on one metric"
    if statistic not in SIMPLE_STATISTICS and read_percent(statistic) is None:
        return f"drydock does not compute its statistic {statistic!r}"
    if alarm.threshold is None or alarm.comparison_operator not in COMPARISONS:
        return "it has no threshold, or no comparison that drydock knows"
    if int(alarm.period or 0) < 1 or int(alarm.evaluation_periods or 0) < 1:
        return "it has no period, or no number of periods"
    if int(alarm.period) * int(alarm.evaluation_periods) > WEEK_S:
        return "its periods are together longer than a week"
    return ""


def _check_statistic(statistic: str | None, extended_statistic: str | None) -> None:
    if (statistic is None) is (extended_statistic is None):
        raise InvalidParameterCombination("Must specify either Statistic or ExtendedStatistic, and not both.")
    if statistic is not None:
        _check_choice("Statistic", statistic, SIMPLE_STATISTICS)
    elif read_percent(str(extended_statistic)) is None:
        raise InvalidParameterValue(f"The value {extended_statistic} for parameter ExtendedStatistic is not supported.")


def _check_periods(period_s: int, count: int, datapoints: Any) -> None:
    if period_s not in SHORT_PERIODS_S and (period_s < 1 or period_s % 60):
        raise ValidationError("Period must be 10, 20, 30 or a multiple of 60")
    if count < 1:
        raise ValidationError("EvaluationPeriods must be greater than or equal to 1")
    if datapoints is not None and not 1 <= int(datapoints) <= count:
        rule = "less than or equal to EvaluationPeriods" if int(datapoints) > count else "greater than or equal to 1"
        raise ValidationError(f"DatapointsToAlarm must be {rule}")
    is_long = period_s >= LONG_PERIOD_S
    if period_s * count > (WEEK_S if is_long else DAY_S):
        span, suffix = ("week", " for alarms using period >= 3600") if is_long else ("day", "")
        limit = f"(EvaluationPeriods * Period must be <= {WEEK_S if is_long else DAY_S})"
        raise ValidationError(f"Metrics cannot be checked across more than a {span} {limit}{suffix}")


def _check_choice(member: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        supported_choices = f"{', '.join(choices[:-1])} and {choices[-1]}"
        raise ValidationError(
            f"Option {value} is not supported. Supported options for parameter {member} are {supported_choices}."
        )
