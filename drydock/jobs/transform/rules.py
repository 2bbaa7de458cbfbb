"""Rules for the request of a transform job, beyond types and lengths: SageMaker's own, and the limits of drydock."""

from collections.abc import Mapping
from typing import Any

from drydock.jobs.rules import MAX_INSTANCES, check_s3_uri, refuse
from drydock.jobs.transform.job import get_model_data_uri

# SageMaker's own limit, for one request and for all concurrent requests together.
MAX_PAYLOAD_MB = 100
# The folder in which SageMaker's script mode has the code of a model.
CODE_FOLDER = "/opt/ml/model/code"
# The values that drydock supports, the default first; SageMaker has more.
_SUPPORTED_VALUES = {
    ("TransformInput", "SplitType"): ("None", "Line"),
    ("DataProcessing", "JoinSource"): ("None",),
    ("DataProcessing", "InputFilter"): ("$",),
    ("DataProcessing", "OutputFilter"): ("$",),
}


def check_request(request: Mapping[str, Any]) -> None:
    """Check that drydock can run the transform job that a request describes.

    Args:
        request: A CreateTransformJob request that has passed `api.validation`.

    Raises:
        AWSValidationException: drydock cannot run the job. The message names the member.
    """
    source = request["TransformInput"]["DataSource"]["S3DataSource"]
    if source["S3DataType"] not in ("S3Prefix", "ManifestFile"):
        refuse(f"S3DataType {source['S3DataType']} is not supported by drydock: use S3Prefix or ManifestFile.")
    check_s3_uri(source["S3Uri"], "TransformInput.DataSource.S3DataSource.S3Uri")
    check_s3_uri(request["TransformOutput"]["S3OutputPath"], "TransformOutput.S3OutputPath")
    for (part, member), supported_values in _SUPPORTED_VALUES.items():
        if (value := request.get(part, {}).get(member, supported_values[0])) not in supported_values:
            refuse(f"{part}.{member} {value} is not supported by drydock: use {' or '.join(supported_values)}.")
    if "DataCaptureConfig" in request:
        refuse("DataCaptureConfig is not supported by drydock.")
    if request["TransformResources"]["InstanceCount"] > MAX_INSTANCES:  # each runs on this machine
        refuse(f"TransformResources.InstanceCount must be 1 to {MAX_INSTANCES} with drydock.")
    _check_payload(request)


def check_model(containers: list[Mapping[str, Any]], name: str) -> None:
    """Check that drydock can run a model: it has one container, with model data, and its code is in CODE_FOLDER.

    Args:
        containers: The model's containers, as CreateModel described them.
        name: The model's name, for the message.

    Raises:
        AWSValidationException: drydock cannot run the model. The message says why.
    """
    if len(containers) != 1:
        refuse(f"Model {name} has {len(containers)} containers: drydock runs models with one container.")
    source = containers[0].get("ModelDataSource", {}).get("S3DataSource", {})
    if source and (source.get("S3DataType"), source.get("CompressionType")) != ("S3Object", "Gzip"):
        refuse(f"Model {name}: drydock reads ModelDataSource of S3DataType S3Object and CompressionType Gzip only.")
    uri = get_model_data_uri(containers[0])
    if not uri:
        refuse(f"Model {name} has no ModelDataUrl: drydock runs the code that is in a model's model.tar.gz.")
    check_s3_uri(uri, f"ModelDataUrl of model {name}")
    folder = containers[0].get("Environment", {}).get("SAGEMAKER_SUBMIT_DIRECTORY", CODE_FOLDER)
    if folder.rstrip("/") != CODE_FOLDER:
        refuse(f"Model {name}: SAGEMAKER_SUBMIT_DIRECTORY {folder} is not supported by drydock: use {CODE_FOLDER}.")


def _check_payload(request: Mapping[str, Any]) -> None:
    payload_mb, concurrent_requests = request.get("MaxPayloadInMB", 0), request.get("MaxConcurrentTransforms", 1)
    if payload_mb > MAX_PAYLOAD_MB or payload_mb * concurrent_requests > MAX_PAYLOAD_MB:
        refuse(
            f"Invalid MaxPayloadInMB {payload_mb} with MaxConcurrentTransforms {concurrent_requests}. "
            f"MaxPayloadInMB and the product of both must be less than or equal to {MAX_PAYLOAD_MB}"
        )
