"""Test drydock with the resource classes of the unmodified sagemaker SDK 3, and its Transformer.

Each class checks the responses that it reads: a response that is not as SageMaker's raises an error.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

CLIENT = """
import json, sys
from sagemaker.core import resources, shapes
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.transformer import Transformer

ROLE = "arn:aws:iam::123456789012:role/training"
results = {}

# Model
container = shapes.ContainerDefinition(image="image", model_data_url="s3://bucket/models/sdk/model.tar.gz")
network = shapes.VpcConfig(security_group_ids=["sg-1"], subnets=["subnet-1"])
resources.Model.create(model_name="plain", primary_container=container, execution_role_arn=ROLE)
resources.Model.create(model_name="private", primary_container=container, execution_role_arn=ROLE, vpc_config=network)
models = {model.model_name: model for model in resources.Model.get_all()}
results["models"] = {name: isinstance(model.vpc_config, shapes.VpcConfig) for name, model in models.items()}
results["subnets"] = resources.Model.get("private").vpc_config.subnets

# EndpointConfig
variant = shapes.ProductionVariant(
    variant_name="v", model_name="plain", instance_type="ml.m5.large", initial_instance_count=1
)
capture = shapes.DataCaptureConfig(
    initial_sampling_percentage=7, destination_s3_uri="s3://bucket/capture",
    capture_options=[shapes.CaptureOption(capture_mode="Input")],
)
resources.EndpointConfig.create(endpoint_config_name="plain", production_variants=[variant])
resources.EndpointConfig.create(
    endpoint_config_name="captured", production_variants=[variant], data_capture_config=capture
)
configs = {config.endpoint_config_name: config for config in resources.EndpointConfig.get_all()}
results["configs"] = {
    name: isinstance(config.data_capture_config, shapes.DataCaptureConfig) for name, config in configs.items()
}
results["sampled"] = resources.EndpointConfig.get("captured").data_capture_config.initial_sampling_percentage
configs["captured"].delete()

# Endpoint
endpoint = resources.Endpoint.create(endpoint_name="sdk-endpoint", endpoint_config_name="plain")
endpoint.wait_for_status("InService", poll=1)
answer = endpoint.invoke(body="a", content_type="text/csv")
results["invoked"] = [answer.body.read().decode(), answer.invoked_production_variant]
endpoint.delete()
endpoint.wait_for_delete(poll=1)
results["endpoints"] = [endpoint.endpoint_name for endpoint in resources.Endpoint.get_all()]

# Jobs
cluster = {"instance_type": "ml.m5.large", "instance_count": 1}
training = resources.TrainingJob.create(
    training_job_name="sdk-training", role_arn=ROLE,
    algorithm_specification=shapes.AlgorithmSpecification(
        training_image="image", training_input_mode="File",
        container_entrypoint=["python3", "-c", "print('loss=0.5;')"],
        metric_definitions=[shapes.MetricDefinition(name="loss", regex="loss=(.*?);")],
    ),
    output_data_config=shapes.OutputDataConfig(s3_output_path="s3://bucket/output"),
    resource_config=shapes.ResourceConfig(**cluster, volume_size_in_gb=1),
    stopping_condition=shapes.StoppingCondition(max_runtime_in_seconds=600),
)
processing = resources.ProcessingJob.create(
    processing_job_name="sdk-processing", role_arn=ROLE,
    app_specification=shapes.AppSpecification(image_uri="image", container_entrypoint=["python3", "-c", "exit(3)"]),
    processing_resources=shapes.ProcessingResources(
        cluster_config=shapes.ProcessingClusterConfig(**cluster, volume_size_in_gb=1)
    ),
)
source = shapes.TransformDataSource(
    s3_data_source=shapes.TransformS3DataSource(s3_data_type="S3Prefix", s3_uri="s3://bucket/in/")
)
transform = resources.TransformJob.create(
    transform_job_name="sdk-transform", model_name="plain",
    transform_input=shapes.TransformInput(data_source=source, content_type="text/csv"),
    transform_output=shapes.TransformOutput(s3_output_path="s3://bucket/sdk-transform"),
    transform_resources=shapes.TransformResources(**cluster),
)
training.wait(poll=1, logs=True)
results["loss"] = resources.TrainingJob.get("sdk-training").final_metric_data_list[0].value
transform.wait(poll=1)
try:
    processing.wait(poll=1)
except Exception as failure:
    results["processing"] = type(failure).__name__
results["jobs"] = [
    [job.training_job_name for job in resources.TrainingJob.get_all(name_contains="sdk-")],
    [job.processing_job_status for job in resources.ProcessingJob.get_all(name_contains="sdk-")],
    [job.transform_job_status for job in resources.TransformJob.get_all(name_contains="sdk-")],
]

# Transformer
def make_transformer():
    return Transformer(
        "plain", 1, "ml.m5.large", output_path="s3://bucket/sdk-transformer", accept="text/csv", assemble_with="Line",
        sagemaker_session=Session(),
    )

transformer = make_transformer()
transformer.transform("s3://bucket/in/", content_type="text/csv", split_type="Line", wait=False)
waiting = make_transformer()
waiting.transform("s3://bucket/waits/", content_type="text/csv", split_type="Line", wait=False)
waiting.stop_transform_job()
transformer.wait(logs=False)
results["attached"] = Transformer.attach(transformer._current_job_name).model_name
transformer.delete_model()
try:
    resources.Model.get("plain")
except Exception as failure:
    results["deleted"] = str(failure)

# Model packages
group = resources.ModelPackageGroup.create(model_package_group_name="group")
results["groups"] = [group.model_package_group_name for group in resources.ModelPackageGroup.get_all()]
results["packages"] = list(resources.ModelPackage.get_all(model_package_group_name="group"))

print("\\n" + json.dumps(results), flush=True)
"""
INFERENCE = """
import threading
def model_fn(model_dir):
    return None
def transform_fn(model, body, content_type, accept):
    if body.startswith("wait"):
        threading.Event().wait()  # until the job is stopped
    return body.upper(), accept
"""


@pytest.fixture(scope="module")
def results(drydock: Any, start_python: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the client, and return what it has seen."""
    drydock.put("models/sdk/model.tar.gz", drydock.pack_archive({"code/inference.py": INFERENCE}))
    drydock.put("in/rows.csv", b"a\nb\n")
    drydock.put("waits/rows.csv", b"wait\n")
    config = tmp_path_factory.mktemp("config") / "config.yaml"
    config.write_text("SchemaVersion: '1.0'\nSageMaker: {PythonSDK: {Modules: {TelemetryOptOut: true}}}\n")
    client = start_python(CLIENT, None, SAGEMAKER_USER_CONFIG_OVERRIDE=str(config))
    output, _ = client.communicate()
    assert client.returncode == 0, output[-4_000:]
    return dict(json.loads(output.splitlines()[-1]))


def test_models_and_endpoint_configs_show_only_what_they_have(results: dict[str, Any]) -> None:
    assert results["models"] == {"plain": False, "private": True} and results["subnets"] == ["subnet-1"]
    assert results["configs"] == {"plain": False, "captured": True} and results["sampled"] == 7


def test_endpoint_serves_and_is_deleted(results: dict[str, Any]) -> None:
    assert results["invoked"] == ["A", "v"] and results["endpoints"] == []


def test_jobs_run_and_show_their_ends(results: dict[str, Any], drydock: Any) -> None:
    assert results["loss"] == 0.5 and results["processing"] == "FailedStatusError"
    assert results["jobs"] == [["sdk-training"], ["Failed"], ["Completed"]]
    assert drydock.get("s3://bucket/sdk-transform/rows.csv.out") == b"A\nB\n"


def test_transformer_transforms_stops_and_deletes_its_model(results: dict[str, Any], drydock: Any) -> None:
    assert drydock.get("s3://bucket/sdk-transformer/rows.csv.out") == b"A\nB\n"
    stopped_jobs = drydock.client("sagemaker").list_transform_jobs(StatusEquals="Stopped")["TransformJobSummaries"]
    assert len(stopped_jobs) == 1
    assert results["attached"] == "plain" and "Could not find model" in results["deleted"]


def test_model_package_groups_are_listed(results: dict[str, Any]) -> None:
    assert results["groups"] == ["group"] and results["packages"] == []
