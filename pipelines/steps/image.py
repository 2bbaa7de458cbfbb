"""Names the container image of a framework that SageMaker ships, and what its instance type has.

The facts are the sagemaker SDK's own tables: nothing is asked of AWS.
"""

from __future__ import annotations

import re

from pipelines.contract import Result, Spec
from pipelines.errors import SpecError


class ImageSpec(Spec):
    """Which framework, where."""

    framework: str = "xgboost"
    """Name in the sagemaker SDK."""
    framework_version: str = "3.2-0"
    """Version of the container."""
    region: str
    """AWS region, for the registry's host."""
    instance_type: str
    """Such as ml.m5.large."""


class ImageResult(Result):
    """An image and its machine."""

    image_uri: str
    """URI of the training image."""
    gpus: int
    """GPUs of the instance type, as far as the SDK knows it; 0 for processors only."""


def run(spec: ImageSpec) -> ImageResult:
    """The image's URI.

    Raises:
        SpecError: the SDK knows no such framework, version or region, or this is no instance type. A retry cannot help.
    """
    from sagemaker.core import image_uris, instance_types_gpu_info

    if not re.fullmatch(r"ml\.[a-z0-9-]+\.[a-z0-9]+", spec.instance_type):
        raise SpecError(f"{spec.instance_type!r} is no SageMaker instance type.", "Such as ml.m5.large.")
    try:
        uri = image_uris.retrieve(
            spec.framework,
            spec.region,
            version=spec.framework_version,
            instance_type=spec.instance_type,
            image_scope="training",
        )
    except (ValueError, KeyError, FileNotFoundError) as error:  # the last: it has no file of such a framework
        raise SpecError(f"no image of {spec.framework} {spec.framework_version} in {spec.region}: {error}") from None
    facts = instance_types_gpu_info.retrieve(spec.region).get(spec.instance_type, {})
    return ImageResult(image_uri=str(uri), gpus=int(facts.get("Count", 0)))
