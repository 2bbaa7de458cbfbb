"""Look up the training image that SageMaker has for a framework, and the number of GPUs of an instance type.

Both are in tables of the sagemaker SDK: no request is made to AWS.
"""

from __future__ import annotations

import re

from pipelines.contract import Result, Spec
from pipelines.errors import SpecError


class ImageSpec(Spec):
    """Which framework, in which region, on which instance type."""

    framework: str = "xgboost"
    """Name of the framework in the sagemaker SDK."""
    framework_version: str = "3.2-0"
    """Version of the framework's image."""
    region: str
    """AWS region, which decides the host of the image registry."""
    instance_type: str
    """Instance type, for example ml.m5.large."""


class ImageResult(Result):
    """The image, and the number of GPUs."""

    image_uri: str
    """URI of the training image."""
    gpus: int
    """Number of GPUs of the instance type; 0 if it has none, or the SDK does not know it."""


def run(spec: ImageSpec) -> ImageResult:
    """Look up the image and the GPUs.

    Raises:
        SpecError: the SDK knows no such framework, version or region, or the instance type is not valid. A retry
            cannot help.
    """
    from sagemaker.core import image_uris, instance_types_gpu_info

    if not re.fullmatch(r"ml\.[a-z0-9-]+\.[a-z0-9]+", spec.instance_type):
        raise SpecError(f"{spec.instance_type!r} is not an instance type of SageMaker.", "For example ml.m5.large.")
    try:
        uri = image_uris.retrieve(
            spec.framework,
            spec.region,
            version=spec.framework_version,
            instance_type=spec.instance_type,
            image_scope="training",
        )
    except (ValueError, KeyError, FileNotFoundError) as error:  # FileNotFoundError: the SDK has no such framework
        raise SpecError(f"no image of {spec.framework} {spec.framework_version} in {spec.region}: {error}") from None
    gpus = instance_types_gpu_info.retrieve(spec.region).get(spec.instance_type, {})
    return ImageResult(image_uri=str(uri), gpus=int(gpus.get("Count", 0)))
