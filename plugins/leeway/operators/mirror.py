"""MirrorOperator."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from airflow.providers.amazon.aws.operators.sagemaker import ApprovalStatus, SageMakerRegisterModelVersionOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

from leeway.operators.output import ReturnsResult

VERSION = "leeway.version"
"""Of a model package's metadata: the version in MLflow that it mirrors."""


class MirrorOperator(ReturnsResult, SageMakerRegisterModelVersionOperator):
    """SageMaker's model registry has a model package of a version, with this approval status. Idempotent.

    For teams that deploy from there; MLflow and the events in the lake stay what decides. A version is one package of
    the group, however often it is mirrored: where there is one, only its status follows. Put it after `promote` with
    "Approved", and after `rollback` once for each of the two versions.

    Args:
        model_name: registered model (templated).
        version: version of it (templated).
        training_job: whose image and model the package names (templated); not needed where there is a package.
        model_approval: Approved, Rejected or PendingManualApproval (templated).
        package_group_name: model package group (templated); the model's name where it is not given.
        image_uri: image that serves it (templated); in the place of the training job's.
        model_url: s3:// address of model.tar.gz (templated); in the place of the training job's.

    Returns:
        model_package_arn, model_approval, changed.
    """

    template_fields: Sequence[str] = (
        *SageMakerRegisterModelVersionOperator.template_fields,
        *("model_name", "version", "training_job"),
    )
    ui_color = "#dcebf7"
    image_uri: str
    model_url: str
    package_desc: str
    extras: dict[str, Any] | None
    model_approval: Any

    def __init__(
        self,
        *,
        model_name: str,
        version: str,
        training_job: str = "",
        model_approval: str = "Approved",
        package_group_name: str = "",
        image_uri: str = "",
        model_url: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            image_uri=image_uri, model_url=model_url, package_group_name=package_group_name or model_name, **kwargs
        )
        self.model_name, self.version, self.training_job = model_name, version, training_job
        self.model_approval = model_approval

    def execute(self, context: Context) -> dict[str, Any]:
        """The package's address, and whether anything changed."""
        try:
            self.model_approval = ApprovalStatus(self.model_approval)
        except ValueError:
            known = ", ".join(one.value for one in ApprovalStatus)
            raise AirflowFailException(f"model_approval is {self.model_approval!r}; it may be {known}.") from None
        found = self._found()
        if found is None:
            arn, changed = self._made(context), True
        else:
            arn, changed = found["ModelPackageArn"], found["ModelApprovalStatus"] != self.model_approval.value
        if found and changed:
            self.hook.conn.update_model_package(
                ModelPackageArn=arn,
                ModelApprovalStatus=self.model_approval.value,
                CustomerMetadataProperties={VERSION: self._id},  # moto forgets what is not said again
            )
        self.log.info("%s: %s, %s", arn, self.model_approval.value, "told now" if changed else "as it was")
        return {"model_package_arn": arn, "model_approval": self.model_approval.value, "changed": changed}

    @property
    def _what(self) -> str:
        return f"{self.model_name} version {self.version} of MLflow"

    def _found(self) -> dict[str, Any] | None:
        """The package of this version; None where there is none, or no group."""
        client = self.hook.conn
        groups = client.get_paginator("list_model_package_groups").paginate(NameContains=self.package_group_name)
        if not any(
            one["ModelPackageGroupName"] == self.package_group_name
            for page in groups
            for one in page["ModelPackageGroupSummaryList"]
        ):
            return None
        pages = client.get_paginator("list_model_packages").paginate(ModelPackageGroupName=self.package_group_name)
        for page in pages:
            for one in page["ModelPackageSummaryList"]:
                told: dict[str, Any] = client.describe_model_package(ModelPackageName=one["ModelPackageArn"])
                if told.get("CustomerMetadataProperties", {}).get(VERSION) == self._id:
                    return told
        return None

    @property
    def _id(self) -> str:
        return f"{self.model_name}/{self.version}"

    def _made(self, context: Context) -> str:
        if not (self.image_uri and self.model_url):
            if not self.training_job:
                raise AirflowFailException(f"give training_job=, or image_uri= and model_url=, of {self._what}.")
            job = self.hook.describe_training_job(self.training_job)
            self.image_uri = self.image_uri or job["AlgorithmSpecification"]["TrainingImage"]
            self.model_url = self.model_url or job["ModelArtifacts"]["S3ModelArtifacts"]
        self.package_desc = self.package_desc or self._what
        # Of two that ask at once, AWS lets one make it.
        token = hashlib.sha256(f"{self.package_group_name}/{self._id}".encode()).hexdigest()[:36]
        self.extras = {"CustomerMetadataProperties": {VERSION: self._id}, "ClientToken": token, **(self.extras or {})}
        return str(super().execute(context))
