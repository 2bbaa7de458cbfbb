"""What SageMaker asks of a transform job's request beyond its shape, and what drydock does not do."""

from collections.abc import Mapping
from typing import Any, NoReturn

from moto.sagemaker.exceptions import AWSValidationException

from drydock.rules import MAX_INSTANCES, s3_uri
from drydock.transform_job import model_data

# SageMaker's own limit, of one request and of all that are under way at once.
MAX_PAYLOAD_MB = 100
CODE = "/opt/ml/model/code"
# What a member may be; SageMaker knows more values.
_DONE = {
    ("TransformInput", "SplitType"): ("None", "Line"),
    ("DataProcessing", "JoinSource"): ("None",),
    ("DataProcessing", "InputFilter"): ("$",),
    ("DataProcessing", "OutputFilter"): ("$",),
}


def check(request: Mapping[str, Any]) -> None:
    """The request, of the right shape already, asks for something that this server does.

    Raises:
        AWSValidationException: It does not; the message says which member.
    """
    source = request["TransformInput"]["DataSource"]["S3DataSource"]
    if source["S3DataType"] not in ("S3Prefix", "ManifestFile"):
        _refuse(f"S3DataType {source['S3DataType']} is not supported by drydock: use S3Prefix or ManifestFile.")
    s3_uri(source["S3Uri"], "TransformInput.DataSource.S3DataSource.S3Uri")
    s3_uri(request["TransformOutput"]["S3OutputPath"], "TransformOutput.S3OutputPath")
    for (part, member), done in _DONE.items():
        if (value := request.get(part, {}).get(member, done[0])) not in done:
            _refuse(f"{part}.{member} {value} is not supported by drydock: use {' or '.join(done)}.")
    if "DataCaptureConfig" in request:
        _refuse("DataCaptureConfig is not supported by drydock.")
    if request["TransformResources"]["InstanceCount"] > MAX_INSTANCES:  # each is a process of this machine
        _refuse(f"TransformResources.InstanceCount must be 1 to {MAX_INSTANCES} with drydock.")
    _payload(request)


def check_model(containers: list[Mapping[str, Any]], name: str) -> None:
    """The model is of one container with data, and its code is where drydock looks for it.

    Raises:
        AWSValidationException: It is not.
    """
    if len(containers) != 1:
        _refuse(f"Model {name} has {len(containers)} containers: drydock runs models of one.")
    source = containers[0].get("ModelDataSource", {}).get("S3DataSource", {})
    if source and (source.get("S3DataType"), source.get("CompressionType")) != ("S3Object", "Gzip"):
        _refuse(f"Model {name}: drydock reads ModelDataSource of S3DataType S3Object and CompressionType Gzip only.")
    if not model_data(containers[0]):
        _refuse(f"Model {name} has no ModelDataUrl: drydock runs the code that is in a model's model.tar.gz.")
    place = containers[0].get("Environment", {}).get("SAGEMAKER_SUBMIT_DIRECTORY", CODE)
    if place.rstrip("/") != CODE:
        _refuse(f"Model {name}: SAGEMAKER_SUBMIT_DIRECTORY {place} is not supported by drydock: put it at {CODE}.")


def _payload(request: Mapping[str, Any]) -> None:
    payload, at_once = request.get("MaxPayloadInMB", 0), request.get("MaxConcurrentTransforms", 1)
    if payload > MAX_PAYLOAD_MB or payload * at_once > MAX_PAYLOAD_MB:
        _refuse(
            f"Invalid MaxPayloadInMB {payload} with MaxConcurrentTransforms {at_once}. "
            f"It and their product must be less than or equal to {MAX_PAYLOAD_MB}"
        )


def _refuse(message: str) -> NoReturn:
    raise AWSValidationException(message)
