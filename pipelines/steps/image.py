"""Look up the training image that SageMaker has for a framework, and the number of GPUs of an instance type.

Both are in tables of the sagemaker SDK: no request is made to AWS.
"""

from __future__ import annotations

import contextlib
import re

from pipelines.contract import Result, Spec
from pipelines.errors import SpecError

X86_TYPE = "ml.m5.large"
"""Instance type with x86_64 processors, for the check that the SDK has an image of the framework at all."""
ARM_FAMILY = re.compile(r"ml\.[a-z]+\d+g[a-z]*\.")
"""Start of the instance types with Graviton processors: a g follows the generation, as in c7g, c6gn and im4gn."""


class ImageSpec(Spec):
    """The framework of the image, the region and the instance type."""

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
        SpecError: the SDK knows no such framework, version or region, there is no image for the instance's
            architecture, or the instance type is not valid. A retry cannot help.
    """
    from sagemaker.core import instance_types_gpu_info

    if not re.fullmatch(r"ml\.[a-z0-9-]+\.[a-z0-9]+", spec.instance_type):
        raise SpecError(f"{spec.instance_type!r} is not an instance type of SageMaker.", "For example ml.m5.large.")
    name, is_arm = f"{spec.framework} {spec.framework_version}", ARM_FAMILY.match(spec.instance_type) is not None
    try:
        uri = _find_uri(spec, X86_TYPE if is_arm else spec.instance_type, "training")
    except LookupError as error:
        raise SpecError(f"no image of {name} in {spec.region}: {error}") from None
    if is_arm:
        uri = _find_arm64_uri(spec, name, uri)
    gpu_info = instance_types_gpu_info.retrieve(spec.region).get(spec.instance_type, {})
    return ImageResult(image_uri=uri, gpus=int(gpu_info.get("Count", 0)))


def _find_arm64_uri(spec: ImageSpec, name: str, x86_uri: str) -> str:
    """Return the URI of the training image for arm64.

    The SDK has its images for arm64 under the scope inference_graviton. The SDK chooses this scope itself only for the
    arm64 instance types that it knows; for other arm64 types, it would return the image for x86_64. An image of another
    repository than the training image, such as pytorch-inference-graviton, is only for inference.
    """
    with contextlib.suppress(LookupError):
        uri = _find_uri(spec, spec.instance_type, "inference_graviton")
        if uri.partition(":")[0] == x86_uri.partition(":")[0]:
            return uri
    raise SpecError(
        f"no image of {name} for arm64, the architecture of {spec.instance_type}; there is one for x86_64.",
        f"Use an instance type with x86_64 processors, such as {X86_TYPE}, or give an image for arm64.",
    )


def _find_uri(spec: ImageSpec, instance_type: str, scope: str) -> str:
    """Return the URI of the SDK's image for an instance type.

    Raises:
        LookupError: the SDK has no such image. The message is the SDK's. A retry cannot help.
    """
    from sagemaker.core import image_uris

    try:
        uri = image_uris.retrieve(
            spec.framework, spec.region, version=spec.framework_version, instance_type=instance_type, image_scope=scope
        )
    except (ValueError, KeyError, FileNotFoundError) as error:  # FileNotFoundError: the SDK has no such framework
        raise LookupError(str(error)) from None
    return str(uri)
