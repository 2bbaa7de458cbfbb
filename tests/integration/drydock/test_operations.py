"""Test that drydock refuses what does not run, keeps what moto only stores, and invents answers only on request."""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from drydock.api.operations import Handling, iter_operations

ROLE = "arn:aws:iam::123456789012:role/drydock"
DATA_SOURCE = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/x"}}
# Without the optional ProblemType and CompletionCriteria.
AUTO_ML: list[dict[str, Any]] = [
    {"TabularJobConfig": {"TargetAttributeName": "y"}},
    {"TabularJobConfig": {"TargetAttributeName": "y", "ProblemType": "Regression"}},
    {"TextClassificationJobConfig": {"ContentColumn": "c", "TargetLabelColumn": "y"}},
    {"ImageClassificationJobConfig": {}},
]
REFUSED = [
    name for name, group in iter_operations() if group.handling is Handling.REFUSED and not name.startswith("Invoke")
]


def check_auto_ml(sagemaker: Any, name: str, config: dict[str, Any]) -> None:
    """Create an AutoML job, and check that its description has its configuration."""
    sagemaker.create_auto_ml_job_v2(
        AutoMLJobName=name,
        AutoMLJobInputDataConfig=[{"DataSource": DATA_SOURCE}],
        OutputDataConfig={"S3OutputPath": "s3://bucket/o"},
        AutoMLProblemTypeConfig=config,
        RoleArn=ROLE,
    )
    assert sagemaker.describe_auto_ml_job_v2(AutoMLJobName=name)["AutoMLProblemTypeConfig"] == config


@pytest.mark.parametrize("operation", REFUSED)
def test_operation_for_which_nothing_runs_is_refused(drydock: Any, operation: str) -> None:
    status, code, message = drydock.send_raw(operation, b"{}")
    assert (status, code) == (501, "NotImplemented")
    assert f"{operation} is refused" in message and "--invented-answers" in message


def test_pipeline_is_stored_but_not_executed(drydock: Any) -> None:
    sagemaker = drydock.client("sagemaker")
    definition = json.dumps({"Version": "2020-12-01", "Steps": []})
    sagemaker.create_pipeline(
        PipelineName="p", PipelineDefinition=definition, RoleArn=ROLE, ClientRequestToken="t" * 32
    )
    assert sagemaker.describe_pipeline(PipelineName="p")["PipelineDefinition"] == definition
    with pytest.raises(ClientError, match=r"\(NotImplemented\).* executions of pipelines do not run in drydock"):
        sagemaker.start_pipeline_execution(PipelineName="p", ClientRequestToken="t" * 32)


@pytest.mark.parametrize("content_type", ["text/csv", "application/json"])
def test_unknown_endpoint_is_refused(drydock: Any, content_type: str) -> None:
    runtime = drydock.client("sagemaker-runtime")
    with pytest.raises(ClientError, match=r"\(ValidationError\).*: Endpoint nope of account 123456789012 not found"):
        runtime.invoke_endpoint(EndpointName="nope", Body=b"1,2", ContentType=content_type)
    with pytest.raises(ClientError, match=r"\(ValidationError\).*: Endpoint nope of account 123456789012 not found"):
        runtime.invoke_endpoint_async(EndpointName="nope", InputLocation="s3://bucket/x", ContentType=content_type)
    assert not [bucket for bucket in drydock.client("s3").list_buckets()["Buckets"] if "sagemaker" in bucket["Name"]]


def test_endpoint_of_cloudformation_is_refused(drydock: Any) -> None:
    cloudformation = drydock.client("cloudformation")
    endpoint = {"Type": "AWS::SageMaker::Endpoint", "Properties": {"EndpointName": "e", "EndpointConfigName": "c"}}
    template = json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": {"Endpoint": endpoint}})
    with pytest.raises(ClientError, match="Endpoints of CloudFormation stacks do not run in drydock"):
        cloudformation.create_stack(StackName="stack", TemplateBody=template)
    (stack,) = cloudformation.list_stacks()["StackSummaries"]
    assert stack["StackStatus"] != "CREATE_COMPLETE"


def test_model_package_is_stored_without_invented_checks(drydock: Any) -> None:
    sagemaker = drydock.client("sagemaker")
    sagemaker.create_model_package_group(ModelPackageGroupName="group")
    request = {"ModelPackageGroupName": "group", "ModelApprovalStatus": "PendingManualApproval"}
    arn = sagemaker.create_model_package(**request)["ModelPackageArn"]
    package = sagemaker.describe_model_package(ModelPackageName=arn)
    assert package["ModelApprovalStatus"] == "PendingManualApproval"
    assert package["ModelPackageStatusDetails"] == {"ValidationStatuses": [], "ImageScanStatuses": []}
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 1}
    transform = {
        "TransformInput": {"DataSource": DATA_SOURCE},
        "TransformOutput": {"S3OutputPath": "s3://bucket/x"},
        "TransformResources": resources,
    }
    profile = {"ProfileName": "p", "TransformJobDefinition": transform}
    validation = {"ValidationRole": ROLE, "ValidationProfiles": [profile]}
    with pytest.raises(ClientError, match="validations of model packages do not run"):
        sagemaker.create_model_package(**request, ValidationSpecification=validation)
    assert len(sagemaker.list_model_packages(ModelPackageGroupName="group")["ModelPackageSummaryList"]) == 1


def test_invented_answers_are_given_on_request(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path, "--invented-answers") as server:
        sagemaker = server.client("sagemaker")
        for number, config in enumerate(AUTO_ML):
            check_auto_ml(sagemaker, f"a-{number}", config)
        with pytest.raises(ClientError, match="Member must not be null"):  # tuning jobs run, also here
            server.create_unchecked_client("sagemaker").create_hyper_parameter_tuning_job()
