"""Call SageMaker, CloudWatch and CloudWatch Logs for one endpoint; retry while they do not answer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk.exceptions import AirflowFailException
from botocore.exceptions import BotoCoreError, ClientError

from leeway.hooks.sagemaker.aws_errors import call_with_retries
from leeway.hooks.sagemaker.connection import AwsConnection
from leeway.hooks.sagemaker.named_jobs import contains
from leeway.hooks.step.hook import Logger
from pipelines.serving import endpoint_resources

T = TypeVar("T")

EXISTS_TEXT = "already existing"
"""Part of SageMaker's error about a second model or configuration of the same name."""
LOG_GROUP_PREFIX = "/aws/sagemaker/Endpoints/"
"""Prefix of an endpoint's log group; the name of the endpoint follows."""
LOG_LINES = 20
"""Number of last lines of an endpoint's log that a failed deployment shows."""


class EndpointClient:
    """Call AWS for one endpoint, and for its configurations, models and alarms.

    Args:
        connection: connection to AWS.
        name: name of the endpoint.
        log: log of the task.
    """

    def __init__(self, connection: AwsConnection, name: str, log: Logger) -> None:
        self.name, self.log = name, log
        self._sagemaker = connection.create_hook(SageMakerHook).conn
        self._cloudwatch = connection.create_hook(partial(AwsBaseHook, client_type="cloudwatch")).conn
        self._connection = connection

    def describe(self) -> dict[str, Any] | None:
        """Return SageMaker's description of the endpoint; None if it does not exist."""
        return self._call(lambda: endpoint_resources.describe_endpoint(self._sagemaker, self.name))

    def read_own_tags(self, endpoint: Mapping[str, Any]) -> dict[str, str]:
        """Return the tags of an endpoint that Leeway created, from key to value.

        Raises:
            AirflowFailException: Leeway did not make the endpoint. A retry cannot help.
        """
        tags = self._read_tags(endpoint["EndpointArn"])
        if endpoint_resources.ENDPOINT_TAG not in tags:
            raise AirflowFailException(
                f"Leeway did not make the endpoint {self.name}, and does not change it: give another endpoint."
            )
        return tags

    def read_config_tags(self, config: Mapping[str, Any]) -> dict[str, str]:
        """Return the tags of a configuration that `describe_config` returned, from key to value."""
        return self._read_tags(config["EndpointConfigArn"])

    def set_tags(self, endpoint: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """Set tags of the endpoint; its other tags stay. Idempotent."""
        pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
        self._call(lambda: self._sagemaker.add_tags(ResourceArn=endpoint["EndpointArn"], Tags=pairs))

    def remove_tag(self, endpoint: Mapping[str, Any], key: str) -> None:
        """Remove a tag of the endpoint. Idempotent."""
        arn = endpoint["EndpointArn"]
        self._call(lambda: self._sagemaker.delete_tags(ResourceArn=arn, TagKeys=[key]))

    def describe_config(self, name: str) -> dict[str, Any]:
        """Return SageMaker's description of an endpoint configuration."""
        return dict(self._call(lambda: self._sagemaker.describe_endpoint_config(EndpointConfigName=name)))

    def update(self, request: Mapping[str, Any]) -> None:
        """Begin to change the endpoint, by a request to UpdateEndpoint."""
        self._call(lambda: self._sagemaker.update_endpoint(**request))

    def create_model_and_config(self, model: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """Create a model and a configuration, unless they exist. Equal requests have equal names."""
        self._create("model", model)
        self._create("endpoint_config", config)

    def put_alarms(self, requests: Sequence[Mapping[str, Any]]) -> None:
        """Create or change the requested alarms, and delete the endpoint's other alarms. Idempotent."""
        existing_alarms = {alarm["AlarmName"]: alarm for alarm in self._describe_alarms()}
        for request in requests:
            if not contains(existing_alarms.get(request["AlarmName"]), request):
                self.log.info("alarm %s: threshold %s", request["AlarmName"], request["Threshold"])
                self._call(partial(self._cloudwatch.put_metric_alarm, **request))
        other_names = [name for name in existing_alarms if name not in {request["AlarmName"] for request in requests}]
        if other_names:
            self.log.info("deleting alarms that the policy does not set: %s", ", ".join(other_names))
            self._call(lambda: self._cloudwatch.delete_alarms(AlarmNames=other_names))

    def list_raised_alarms(self) -> dict[str, str]:
        """Return the endpoint's alarms in the state ALARM, from name to reason of the state."""
        return {
            alarm["AlarmName"]: str(alarm.get("StateReason", ""))
            for alarm in self._describe_alarms()
            if alarm["StateValue"] == "ALARM"
        }

    def list_alarms(self) -> dict[str, str]:
        """Return the endpoint's alarms, from name to reason of the state."""
        return {alarm["AlarmName"]: str(alarm.get("StateReason", "")) for alarm in self._describe_alarms()}

    def delete_unused_resources(self, endpoint: Mapping[str, Any]) -> None:
        """Delete the configurations and models that the endpoint does not use. Idempotent.

        Configurations and models that are newer than the endpoint's present configuration stay: a deployment that is
        about to begin may need them.
        """
        name = endpoint["EndpointConfigName"]
        config = self.describe_config(name)
        models = [variant["ModelName"] for variant in config["ProductionVariants"]]
        self._delete_unused_resources([name, *models], config["CreationTime"])

    def delete_config_and_model(self, config_name: str, model_name: str) -> None:
        """Delete a configuration and a model that the endpoint does not use; the caller checks that. Idempotent."""
        for method, member, name in (
            ("delete_endpoint_config", "EndpointConfigName", config_name),
            ("delete_model", "ModelName", model_name),
        ):
            try:
                self._call(partial(getattr(self._sagemaker, method), **{member: name}))
            except ClientError as error:
                if endpoint_resources.NOT_FOUND_TEXT not in str(error):
                    raise

    def delete_all(self) -> None:
        """Begin to delete the endpoint; delete its configurations, models and alarms. Idempotent."""
        self.delete()
        self._delete_unused_resources(keep=(), before=None)
        self._call(lambda: endpoint_resources.delete_alarms(self._cloudwatch, self.name))

    def delete(self) -> None:
        """Begin to delete the endpoint. Idempotent."""
        self._call(lambda: endpoint_resources.delete_endpoint(self._sagemaker, self.name))

    def read_log_end(self, variant: str = "") -> list[str]:
        """Return the last lines of the log of the endpoint, or of one variant; empty if it cannot be read.

        The lines only explain a failure, so an error is ignored.
        """
        logs, group = self._connection.create_hook(AwsLogsHook).conn, f"{LOG_GROUP_PREFIX}{self.name}"
        # CloudWatch Logs cannot sort streams with a prefix by time. But a variant that fails to start has few streams.
        search = {"logStreamNamePrefix": f"{variant}/"} if variant else {"orderBy": "LastEventTime", "descending": True}
        try:
            streams = logs.describe_log_streams(logGroupName=group, limit=50, **search)["logStreams"]
            name = max(streams, key=lambda stream: stream.get("lastEventTimestamp", 0))["logStreamName"]
            request = {"logGroupName": group, "logStreamName": name, "limit": LOG_LINES, "startFromHead": False}
            return [str(event["message"]).rstrip() for event in logs.get_log_events(**request)["events"]]
        except (ClientError, BotoCoreError, LookupError, ValueError):
            return []

    def _read_tags(self, arn: str) -> dict[str, str]:
        return self._call(lambda: endpoint_resources.read_tags(self._sagemaker, arn))

    def _delete_unused_resources(self, keep: Collection[str], before: dt.datetime | None) -> None:
        self._call(lambda: endpoint_resources.delete_unused_resources(self._sagemaker, self.name, keep, before))

    def _describe_alarms(self) -> list[dict[str, Any]]:
        names = list(endpoint_resources.build_alarm_names(self.name).values())
        return list(self._call(lambda: self._cloudwatch.describe_alarms(AlarmNames=names))["MetricAlarms"])

    def _create(self, kind: str, request: Mapping[str, Any]) -> None:
        try:
            self._call(partial(getattr(self._sagemaker, f"create_{kind}"), **request))
        except ClientError as error:
            if EXISTS_TEXT not in str(error):
                raise

    def _call(self, call: Callable[[], T]) -> T:
        return call_with_retries(call, self.log)
