"""Rules for the data of metrics that clients put, and for the queries that read them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moto.cloudwatch.exceptions import CloudWatchException, InvalidParameterValue, ValidationError

MAX_VALUE = 2.0**360
"""Largest absolute value that CloudWatch stores."""


class MissingParameter(CloudWatchException):
    """A request lacks a parameter. A retry cannot help."""

    code = "MissingParameter"


def check_data(metric_data: Sequence[Mapping[str, Any]]) -> None:
    """Check the member MetricData of PutMetricData, in addition to moto's checks.

    Raises:
        ServiceException: A datum has no value, or one that CloudWatch refuses. A retry cannot help.
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


def _iterate_values(datum: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    if datum.get("Value") is not None:
        yield "Value", float(datum["Value"])
    yield from (("Values", float(value)) for value in datum.get("Values") or ())
    for name, value in (datum.get("StatisticValues") or {}).items():
        yield f"StatisticValues.{name}", float(value)


def check_queries(queries: Sequence[Mapping[str, Any]]) -> None:
    """Check that drydock can answer the queries of GetMetricData.

    Raises:
        ValidationError: A query is an expression other than the Id of another query. A retry cannot help.
    """
    expressions = [query["Expression"] for query in queries if query.get("Expression")]
    ids = {query.get("Id") for query in queries if not query.get("Expression")}
    for expression in expressions:
        if expression not in ids:
            raise ValidationError(
                f"drydock does not compute the expression {expression[:100]!r}: query each metric, and compute it "
                "from their values."
            )
