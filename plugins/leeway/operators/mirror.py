"""The operator that mirrors a version in SageMaker's model registry."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from airflow.providers.amazon.aws.operators.sagemaker import ApprovalStatus, SageMakerRegisterModelVersionOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

from leeway.operators.output import ResultOutputMixin

VERSION_KEY = "leeway.version"
"""Key in the metadata of a model package. Its value is the mirrored version, as MODEL/VERSION."""


class MirrorOperator(ResultOutputMixin, SageMakerRegisterModelVersionOperator):
    """Mirror a version and its approval status in SageMaker's model registry. Idempotent.

    Use it if you deploy from SageMaker's registry. MLflow and the events in the lake stay the source of truth. The
    model package group has one package for each version: if the package exists, only its status is updated. Put one
    task after `promote`, with "Approved". Put two tasks after `rollback`: one approves the version that is champion
    again, the other rejects the version that was rolled back.

    Args:
        model: registered model (templated).
        version: version of the model (templated).
        training_job: training job whose image and model the package gets (templated); not needed if the package exists.
        model_approval: Approved, Rejected or PendingManualApproval (templated).
        package_group_name: model package group (templated); by default the model's name.
        image_uri: image that serves the model (templated); by default the one of the training job.
        model_url: s3:// address of model.tar.gz (templated); by default the one of the training job.

    Returns:
        model_package_arn, model_approval, changed.
    """

    template_fields: Sequence[str] = (
        *SageMakerRegisterModelVersionOperator.template_fields,
        *("model", "version", "training_job"),
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
        model: str,
        version: str,
        training_job: str = "",
        model_approval: str = "Approved",
        package_group_name: str = "",
        image_uri: str = "",
        model_url: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            image_uri=image_uri, model_url=model_url, package_group_name=package_group_name or model, **kwargs
        )
        self.model, self.version, self.training_job = model, version, training_job
        self.model_approval = model_approval

    def execute(self, context: Context) -> dict[str, Any]:
        """Create or update the package; return its ARN and whether anything changed."""
        try:
            self.model_approval = ApprovalStatus(self.model_approval)
        except ValueError:
            allowed_names = ", ".join(status.value for status in ApprovalStatus)
            raise AirflowFailException(
                f"model_approval is {self.model_approval!r}: give one of {allowed_names}."
            ) from None
        package = self._find_package()
        if package is None:
            arn, is_changed = self._create_package(context), True
        else:
            arn, is_changed = package["ModelPackageArn"], package["ModelApprovalStatus"] != self.model_approval.value
        if package and is_changed:
            self.hook.conn.update_model_package(
                ModelPackageArn=arn,
                ModelApprovalStatus=self.model_approval.value,
                CustomerMetadataProperties={VERSION_KEY: self._version_id},  # moto drops this key if an update lacks it
            )
        self.log.info("%s: %s, %s", arn, self.model_approval.value, "changed" if is_changed else "unchanged")
        return {"model_package_arn": arn, "model_approval": self.model_approval.value, "changed": is_changed}

    def _find_package(self) -> dict[str, Any] | None:
        """Return the package of this version; None if there is no such package, or no group."""
        client = self.hook.conn
        group_pages = client.get_paginator("list_model_package_groups").paginate(NameContains=self.package_group_name)
        if not any(
            group["ModelPackageGroupName"] == self.package_group_name
            for page in group_pages
            for group in page["ModelPackageGroupSummaryList"]
        ):
            return None
        pages = client.get_paginator("list_model_packages").paginate(ModelPackageGroupName=self.package_group_name)
        for page in pages:
            for summary in page["ModelPackageSummaryList"]:
                arn = summary["ModelPackageArn"]
                package: dict[str, Any] = client.describe_model_package(ModelPackageName=arn)
                if package.get("CustomerMetadataProperties", {}).get(VERSION_KEY) == self._version_id:
                    return package
        return None

    @property
    def _version_id(self) -> str:
        return f"{self.model}/{self.version}"

    def _create_package(self, context: Context) -> str:
        description = f"{self.model} version {self.version} of MLflow"
        if not (self.image_uri and self.model_url):
            if not self.training_job:
                raise AirflowFailException(f"give training_job=, or image_uri= and model_url=, for {description}.")
            job = self.hook.describe_training_job(self.training_job)
            self.image_uri = self.image_uri or job["AlgorithmSpecification"]["TrainingImage"]
            self.model_url = self.model_url or job["ModelArtifacts"]["S3ModelArtifacts"]
        self.package_desc = self.package_desc or description
        # Requests with the same token create one package, also if two tasks send them at the same time.
        token = hashlib.sha256(f"{self.package_group_name}/{self._version_id}".encode()).hexdigest()[:36]
        metadata = {VERSION_KEY: self._version_id}
        self.extras = {"CustomerMetadataProperties": metadata, "ClientToken": token, **(self.extras or {})}
        return str(super().execute(context))
