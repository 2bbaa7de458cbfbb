"""Rules for the data of metrics that clients put, and for the queries that read them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.cloudwatch.exceptions import CloudWatchException, InvalidParameterValue, ValidationError

MAX_VALUE = 2.0**360
"""Largest absolute value that CloudWatch stores."""
MAX_AGE, MAX_LEAD = timedelta(weeks=2), timedelta(hours=2)
"""How far the time of a datum may be in the past, and in the future (botocore's description of PutMetricData)."""


RESERVED_PREFIX = "AWS/"
"""Beginning of the namespaces in which only AWS publishes metrics."""


class MissingParameter(CloudWatchException):
    """A request lacks a parameter. A retry cannot help."""

    code = "MissingParameter"


def check_namespace(namespace: str) -> None:
    """Check that a client may put data into a namespace.

    Raises:
        InvalidParameterValue: The namespace belongs to AWS. A retry cannot help.
    """
    if namespace.startswith(RESERVED_PREFIX):
        raise InvalidParameterValue(f"The value {RESERVED_PREFIX} for parameter Namespace is invalid.")


def check_data(metric_data: Sequence[Mapping[str, Any]]) -> None:
    """Check the member MetricData of PutMetricData, in addition to moto's checks.

    Raises:
        MissingParameter: A datum has no name or no value. A retry cannot help.
        InvalidParameterValue: CloudWatch refuses a value: NaN, or one beyond `MAX_VALUE`. A retry cannot help.
    """
    for number, datum in enumerate(metric_data, 1):
        path = f"MetricData.member.{number}"
        if not datum.get("MetricName"):
            raise MissingParameter(f"The parameter {path}.MetricName is required.")
        values = list(_iterate_values(datum))
        if not values:
            raise MissingParameter(
                f"At least one of the parameters must be specified: {path}.Value, {path}.Values, "
                f"{path}.StatisticValues."
            )
        for member, value in values:
            if not abs(value) <= MAX_VALUE:  # NaN is not less than anything
                text = "NaN" if math.isnan(value) else f"{value:g}"
                raise InvalidParameterValue(f"The value {text} for parameter {path}.{member} is invalid.")


def check_times(metric_data: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """Check that the times of the member MetricData of PutMetricData are not too old, and not too far in the future.

    Args:
        metric_data: MetricData. A Timestamp without an offset is UTC; a datum without a Timestamp has the time `now`.
        now: The present time, UTC without an offset.

    Raises:
        InvalidParameterValue: A time is outside of the limits of CloudWatch. A retry cannot help.
    """
    for number, datum in enumerate(metric_data, 1):
        time = datum.get("Timestamp") or now
        age = now - (time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time)
        if not -MAX_LEAD <= age <= MAX_AGE:
            rule = "within the past two weeks" if age > MAX_AGE else "no more than two hours in the future"
            raise InvalidParameterValue(
                f"The parameter MetricData.member.{number}.Timestamp must specify a time {rule}."
            )


def _iterate_values(datum: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    if datum.get("Value") is not None:
        yield "Value", float(datum["Value"])
    yield from (("Values", float(value)) for value in datum.get("Values") or ())
    for name, value in (datum.get("StatisticValues") or {}).items():
        yield f"StatisticValues.{name}", float(value)


def check_queries(queries: Sequence[Mapping[str, Any]]) -> None:
    """Check that drydock can answer the queries of GetMetricData.

    Raises:
        ValidationError: A query is an expression other than the Id of a query of a metric. A retry cannot help.
    """
    expressions = [query["Expression"] for query in queries if query.get("Expression")]
    ids = {query.get("Id") for query in queries if not query.get("Expression")}
    for expression in expressions:
        if expression not in ids:
            raise ValidationError(
                f"drydock does not compute the expression {expression[:100]!r}: query each metric, and compute it "
                "from their values."
            )
