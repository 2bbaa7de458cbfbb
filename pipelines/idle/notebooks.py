"""Find and stop notebook instances and Studio apps that run and that nobody uses."""

from __future__ import annotations

import datetime as dt
from typing import Any

from botocore.exceptions import ClientError

from pipelines.costs.prices import Component
from pipelines.idle.kinds import Resource, is_busy
from pipelines.idle.names import KindName
from pipelines.serving.endpoint_resources import read_tags

NAMESPACE, DIMENSION = "/aws/sagemaker/NotebookInstances", "NotebookInstanceName"
"""Namespace and dimension of the metrics of notebook instances in CloudWatch."""
FREE_TYPE = "system"
"""Instance type of Studio apps that run on instances of AWS and cost nothing."""
GONE_TEXTS = ("RecordNotFound", "does not exist", "Unable to transition", "ResourceNotFound")
"""Parts of the messages of errors about a notebook instance or app that was stopped or deleted by somebody else."""


class NotebookKind:
    """Lists, checks and stops notebook instances. An instance is in use if its CPU utilization reached a limit.

    Args:
        sagemaker: boto3 client of SageMaker.
        cloudwatch: boto3 client of CloudWatch.
        cpu_percent: limit of the CPU, percent of one core.
    """

    name: KindName = "notebook"
    component: Component = "Training"  # notebook instances have the prices of jobs

    def __init__(self, sagemaker: Any, cloudwatch: Any, cpu_percent: float) -> None:
        self.sagemaker, self.cloudwatch, self.cpu_percent = sagemaker, cloudwatch, cpu_percent

    def list_names(self) -> list[str]:
        """Return the names of the notebook instances that are InService, sorted."""
        pages = self.sagemaker.get_paginator("list_notebook_instances").paginate(StatusEquals="InService")
        return sorted(notebook["NotebookInstanceName"] for page in pages for notebook in page["NotebookInstances"])

    def find(self, name: str) -> Resource | None:
        """Return a notebook instance; None if it is not InService."""
        try:
            notebook = self.sagemaker.describe_notebook_instance(NotebookInstanceName=name)
        except ClientError as error:
            if _is_gone(error):
                return None
            raise
        if notebook["NotebookInstanceStatus"] != "InService":
            return None
        arn, instances = notebook["NotebookInstanceArn"], {notebook["InstanceType"]: 1}
        return Resource(name, arn, instances, notebook["LastModifiedTime"], read_tags(self.sagemaker, arn), notebook)

    def is_used(self, resource: Resource, begin: dt.datetime, now: dt.datetime) -> bool | None:
        """Return whether the CPU reached the limit; None if it did not, but values of an hour or more are missing."""
        return is_busy(self.cloudwatch, NAMESPACE, (DIMENSION, resource.name), (begin, now), self.cpu_percent)

    def stop(self, resource: Resource, why: str) -> bool:
        """Begin to stop a notebook instance. Its disk stays, and it can be started again."""
        return _request_stop(self.sagemaker.stop_notebook_instance, NotebookInstanceName=resource.name)


class AppKind:
    """Lists, checks and deletes Studio apps. An app is in use if SageMaker recorded activity of a person.

    Args:
        sagemaker: boto3 client of SageMaker.
    """

    name: KindName = "app"
    component: Component = "Training"  # apps have the prices of jobs

    def __init__(self, sagemaker: Any) -> None:
        self.sagemaker = sagemaker

    def list_names(self) -> list[str]:
        """Return DOMAIN/user/USER/TYPE/NAME or DOMAIN/space/SPACE/TYPE/NAME of each app that is InService, sorted."""
        pages = self.sagemaker.get_paginator("list_apps").paginate()
        apps = [app for page in pages for app in page["Apps"] if app["Status"] == "InService"]
        return sorted(_format_app(app) for app in apps)

    def find(self, name: str) -> Resource | None:
        """Return an app; None if it is not InService."""
        try:
            app = self.sagemaker.describe_app(**_parse_app(name))
        except ClientError as error:
            if _is_gone(error):
                return None
            raise
        if app["Status"] != "InService":
            return None
        instance_type, arn = app.get("ResourceSpec", {}).get("InstanceType", FREE_TYPE), app["AppArn"]
        instances = {} if instance_type == FREE_TYPE else {instance_type: 1}
        return Resource(name, arn, instances, app["CreationTime"], read_tags(self.sagemaker, arn), app)

    def is_used(self, resource: Resource, begin: dt.datetime, now: dt.datetime) -> bool | None:
        """Return whether a person used an app since `begin`; None if SageMaker does not report the last activity."""
        used_at = resource.description.get("LastUserActivityTimestamp")
        return None if used_at is None else bool(used_at >= begin)

    def stop(self, resource: Resource, why: str) -> bool:
        """Begin to delete an app. The files of its user or space stay; data that are only in its memory are lost."""
        return _request_stop(self.sagemaker.delete_app, **_parse_app(resource.name))


def _format_app(app: dict[str, Any]) -> str:
    """Return the name of an app, such as d-1/user/ana/JupyterLab/lab."""
    owner = ("space", app["SpaceName"]) if app.get("SpaceName") else ("user", app["UserProfileName"])
    return "/".join((app["DomainId"], *owner, app["AppType"], app["AppName"]))


def _parse_app(name: str) -> dict[str, str]:
    """Return the fields that identify an app in a request to SageMaker."""
    domain, owner, owner_name, app_type, app_name = name.split("/")
    owner_field = "SpaceName" if owner == "space" else "UserProfileName"
    return {"DomainId": domain, owner_field: owner_name, "AppType": app_type, "AppName": app_name}


def _is_gone(error: ClientError) -> bool:
    return any(text in str(error) for text in GONE_TEXTS)


def _request_stop(operation: Any, **request: str) -> bool:
    """Request that a resource is stopped or deleted. Return False if somebody else has done so."""
    try:
        operation(**request)
    except ClientError as error:
        if not _is_gone(error):
            raise
        return False
    return True
