"""Extend moto's CloudWatch: percentiles of metrics, checks of alarms and data, and stored alarms and metrics."""

import json
from collections.abc import Mapping
from typing import Any

from moto.cloudwatch import models, urls
from moto.cloudwatch.models import Alarm, CloudWatchBackend, MetricDatumBase, cloudwatch_backends

from drydock.cloudwatch.alarm_rules import check_alarm
from drydock.cloudwatch.data_rules import check_data
from drydock.cloudwatch.host_metrics import HostMetrics
from drydock.cloudwatch.responses import CheckedResponse
from drydock.cloudwatch.statistics import PercentileStatistics
from drydock.cloudwatch.stored_metrics import StoredMetrics
from drydock.moto_registry import bind_arguments
from drydock.resources import Owner, Resources
from drydock.store import Store


class StoredCloudWatch(CloudWatchBackend):
    """The CloudWatch of one account and region.

    Alarms are stored, without their states. Of the metrics, those of endpoints, notebook instances and jobs' hosts are
    stored; others are not.

    Args:
        store: The server's storage.
        region_name: The region.
        account_id: The account.
    """

    def __init__(self, store: Store, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self._store, self._owner = store, Owner(account_id, region_name)
        self.host_metrics = HostMetrics(store, self._owner)
        """The metrics of the hosts of jobs."""
        self._stored_alarms, self._stored_metrics = Resources(store, "alarm"), StoredMetrics(store)
        self.metric_data.extend(self._stored_metrics.load(self._owner))
        for text in self._stored_alarms.list_texts(self._owner):
            super().put_metric_alarm(**json.loads(text))

    @property
    def url_bases(self) -> list[str]:
        """The host names at which moto serves CloudWatch."""
        return list(urls.url_bases)

    @property
    def url_paths(self) -> dict[str, Any]:
        """The paths at which moto serves CloudWatch, with the handler that checks requests."""
        return {"/$": CheckedResponse.dispatch}

    def reset(self) -> None:
        """Delete all alarms and metrics, for moto's /moto-api/reset."""
        self._stored_alarms.delete_all(self._owner)
        self._stored_metrics.delete(self._owner)
        self.host_metrics.delete_all()
        arguments = (self._store, self.region_name, self.account_id)
        self.__dict__.clear()
        StoredCloudWatch.__init__(self, *arguments)

    def get_all_metrics(self) -> list[MetricDatumBase]:
        """Return the data of all metrics."""
        return [*super().get_all_metrics(), *self.host_metrics.list_data()]

    def get_filtered_metrics(
        self, metric_name: str, namespace: str, dimensions: list[dict[str, str]]
    ) -> list[MetricDatumBase]:
        """Return one datum of each metric that matches, in linear time; the time of moto's method is quadratic."""
        matches = (datum for datum in self.get_all_metrics() if datum.filter(namespace, metric_name, dimensions))
        return list({_identify_metric(datum): datum for datum in matches}.values())

    def put_metric_alarm(self, **arguments: Any) -> Alarm:
        """Create an alarm, or replace the alarm that has the same name.

        Raises:
            ServiceException: CloudWatch refuses the alarm, or drydock cannot evaluate it. A retry cannot help.
        """
        check_alarm(arguments)
        alarm = super().put_metric_alarm(**arguments)
        self._stored_alarms.write(self._owner, alarm.name, json.dumps(arguments))
        return alarm

    def put_metric_data(self, namespace: str, metric_data: list[dict[str, Any]]) -> None:
        """Add data of metrics.

        Raises:
            ServiceException: A datum has no name or no value, or CloudWatch refuses its value. A retry cannot help.
        """
        check_data(metric_data)
        super().put_metric_data(namespace, metric_data)

    def delete_alarms(self, alarm_names: list[str]) -> None:
        """Delete alarms. Names without an alarm are ignored."""
        super().delete_alarms(alarm_names)
        for name in alarm_names:
            self._stored_alarms.delete(self._owner, name)


def record_host_metrics(owner: Owner, namespace: str, host: str, values: Mapping[str, float]) -> None:
    """Record one value of each of several metrics of a job's host.

    Args:
        owner: The job's account and region.
        namespace: The metrics' namespace, such as /aws/sagemaker/TrainingJobs.
        host: Value of the dimension Host.
        values: The value of each metric, in percent, by the metric's name.

    Raises:
        sqlite3.Error: The disk is full or not writable. A retry can help.
    """
    backend: Any = cloudwatch_backends[owner.account_id][owner.region]
    backend.host_metrics.record(namespace, host, values)


def _identify_metric(datum: MetricDatumBase) -> tuple[Any, ...]:
    return datum.namespace, datum.name, *sorted((item.name, item.value) for item in datum.dimensions)


def install(store: Store) -> None:
    """Make moto use `StoredCloudWatch`."""
    models.Statistics = PercentileStatistics
    cloudwatch_backends.clear()
    cloudwatch_backends.backend = bind_arguments(StoredCloudWatch, store)
