"""Rules for the request of a processing job, beyond types and lengths: SageMaker's own, and the limits of drydock."""

from collections.abc import Mapping
from typing import Any

from drydock.host.tree import is_below_container_base
from drydock.jobs.rules import check_s3_uri, refuse


def check_request(request: Mapping[str, Any]) -> None:
    """Check that drydock can run the processing job that a request describes.

    Args:
        request: A CreateProcessingJob request that has passed `api.validation`.

    Raises:
        AWSValidationException: drydock cannot run the job. The message names the member.
    """
    inputs = request.get("ProcessingInputs", [])
    outputs = request.get("ProcessingOutputConfig", {}).get("Outputs", [])
    for key, entries in (("InputName", inputs), ("OutputName", outputs)):
        names = [entry[key] for entry in entries]
        if len(names) != len(set(names)):
            refuse(f"{key}s must be unique within a processing job: {names}")
    for entry in inputs:
        _check_input(entry)
    for entry in outputs:
        if "S3Output" not in entry:
            refuse(f"Output {entry['OutputName']}: drydock can only write to S3: use S3Output.")
        _check_location(entry["OutputName"], entry["S3Output"])


def _check_input(entry: Mapping[str, Any]) -> None:
    name, source = entry["InputName"], entry.get("S3Input")
    if source is None:
        refuse(f"Input {name}: drydock can only read from S3: use S3Input.")
    if source.get("S3InputMode", "File") != "File":
        refuse(f"Input {name}: S3InputMode Pipe is not supported by drydock: use File.")
    if source.get("S3CompressionType", "None") != "None":
        refuse(f"Input {name}: S3CompressionType Gzip is only for Pipe mode, which drydock does not have: use None.")
    _check_location(name, source)


def _check_location(name: str, location: Mapping[str, Any]) -> None:
    check_s3_uri(location["S3Uri"], name)
    if not is_below_container_base(location.get("LocalPath", "")):
        refuse(f"{name}: LocalPath must be a folder under /opt/ml (got {location.get('LocalPath')}).")
