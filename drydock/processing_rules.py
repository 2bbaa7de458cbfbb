"""What SageMaker asks of a processing job's request beyond its shape, and what drydock does not do."""

from collections.abc import Mapping
from typing import Any, NoReturn

from moto.sagemaker.exceptions import AWSValidationException

from drydock.rules import s3_uri
from drydock.tree import inside_container_base


def check(request: Mapping[str, Any]) -> None:
    """The request, of the right shape already, asks for something that this server does.

    Raises:
        AWSValidationException: It does not; the message says which member.
    """
    inputs = request.get("ProcessingInputs", [])
    outputs = request.get("ProcessingOutputConfig", {}).get("Outputs", [])
    for kind, ones in (("InputName", inputs), ("OutputName", outputs)):
        names = [one[kind] for one in ones]
        if len(names) != len(set(names)):
            _refuse(f"{kind}s must be unique within a processing job: {names}")
    for one in inputs:
        _input(one)
    for one in outputs:
        if "S3Output" not in one:
            _refuse(f"Output {one['OutputName']}: drydock writes S3Output only.")
        _place(one["OutputName"], one["S3Output"])


def _input(one: Mapping[str, Any]) -> None:
    name, source = one["InputName"], one.get("S3Input")
    if source is None:
        _refuse(f"Input {name}: drydock reads S3Input only.")
    if source.get("S3InputMode", "File") != "File":
        _refuse(f"Input {name}: S3InputMode Pipe is not supported by drydock.")
    if source.get("S3CompressionType", "None") != "None":
        _refuse(f"Input {name}: S3CompressionType Gzip is only for Pipe mode, which drydock does not have.")
    _place(name, source)


def _place(name: str, source: Mapping[str, Any]) -> None:
    s3_uri(source["S3Uri"], name)
    if not inside_container_base(source.get("LocalPath", "")):
        _refuse(f"{name}: LocalPath must be a folder under /opt/ml/processing (got {source.get('LocalPath')}).")


def _refuse(message: str) -> NoReturn:
    raise AWSValidationException(message)
