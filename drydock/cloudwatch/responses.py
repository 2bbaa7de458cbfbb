"""Extend moto's HTTP responses of CloudWatch: percentiles, and the checks of requests that moto lacks."""

from moto.cloudwatch.exceptions import ValidationError
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult
from moto.core.utils import utcnow

from drydock.cloudwatch.data_rules import check_namespace, check_queries, check_times
from drydock.shapes import describe_problems, load_operation


class CheckedResponse(CloudWatchResponse):
    """moto's HTTP responses of CloudWatch, with ExtendedStatistics of GetMetricStatistics, and with checks."""

    def put_metric_alarm(self) -> ActionResult:
        """Answer PutMetricAlarm."""
        self._check_shape("PutMetricAlarm")
        return super().put_metric_alarm()

    def put_metric_data(self) -> ActionResult:
        """Answer PutMetricData."""
        self._check_shape("PutMetricData")
        check_namespace(self._get_param("Namespace"))
        check_times(self._get_param("MetricData") or [], utcnow())
        return super().put_metric_data()

    def get_metric_data(self) -> ActionResult:
        """Answer GetMetricData."""
        self._check_shape("GetMetricData")
        check_queries(self._get_param("MetricDataQueries") or [])
        return super().get_metric_data()

    def get_metric_statistics(self) -> ActionResult:
        """Answer GetMetricStatistics."""
        result = super().get_metric_statistics()
        for statistics in result.result["Datapoints"]:
            statistics.stats = [*statistics.stats, *(self._get_param("ExtendedStatistics") or ())]
        return result

    def _check_shape(self, operation: str) -> None:
        if message := describe_problems(self._get_params(), load_operation(operation, "cloudwatch").input_shape):
            raise ValidationError(message)
