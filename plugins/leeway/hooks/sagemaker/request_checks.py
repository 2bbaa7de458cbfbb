"""Check a job's request before the first call to AWS: each refusal is one line that says what to give instead."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowFailException
from botocore.model import Shape
from botocore.validate import ParamValidator

INSTANCE_TYPE = re.compile(r"ml\.[a-z0-9-]+\.[a-z0-9]+")
LONGEST_RUN_S = 28 * 24 * 3_600
"""SageMaker's limit of MaxRuntimeInSeconds."""
LARGEST_VOLUME_GB = 16_384
"""SageMaker's limit of VolumeSizeInGB."""
TASK_FIELDS = (
    *("TrainingJobName", "ProcessingJobName", "TransformJobName", "ModelName", "Tags"),
    *("TransformOutput.S3OutputPath", "ProcessingOutputConfig.Outputs"),
)
"""Parts of the request that `config` may not have: they connect a task, its jobs, their outputs and the bill."""


def parse_count(name: str, value: Any, most: int | None = None) -> int:
    """Return `value` as a whole number from 1 to `most`: templates give strings, and botocore refuses them.

    Raises:
        AirflowFailException: it is not one. A retry cannot help.
    """
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise AirflowFailException(f"{name} is not a whole number: {value!r}.") from None
    if number < 1 or (most is not None and number > most) or number != float(value):
        bounds = f"from 1 to {most}" if most else "of 1 or more"
        raise AirflowFailException(f"{name} must be a whole number {bounds}: it is {value!r}.")
    return number


def parse_usd(name: str, value: Any) -> float | None:
    """Return `value` as an amount of US dollars; None if there is none, also if a template rendered to "" or "None".

    Raises:
        AirflowFailException: it is not above 0. A retry cannot help.
    """
    if value is None or str(value).strip() in {"", "None"}:
        return None
    try:
        amount = float(value)
    except (TypeError, ValueError):
        amount = math.nan
    if not (math.isfinite(amount) and amount > 0):
        raise AirflowFailException(f"{name} must be an amount of US dollars above 0: it is {value!r}.")
    return amount


def check_instance_types(
    task: str, instance_type: str, instance_types: Sequence[str] | None, policies: Sequence[str], policy: str
) -> list[str]:
    """Return the instance types to try in turn.

    Args:
        task: name of the task in the error.
        instance_type: the only type, if `instance_types` is empty.
        instance_types: types to try in turn, or None.
        policies: values that `policy` may have.
        policy: what follows a job that got no machine.

    Raises:
        AirflowFailException: a type or the policy is wrong. A retry cannot help.
    """
    if policy not in policies:
        raise AirflowFailException(f"on_no_capacity of {task} is {policy!r}: give one of {', '.join(policies)}.")
    types = list(instance_types or [instance_type])
    wrong = [str(name) for name in types if not INSTANCE_TYPE.fullmatch(str(name))]
    if wrong:
        raise AirflowFailException(f"not instance types of SageMaker: {', '.join(wrong)}; an example is ml.m5.large.")
    if policy == "fail" and len(types) > 1:
        raise AirflowFailException(
            f"{task} names {len(types)} instance types, but on_no_capacity='fail' uses only the first: "
            "give on_no_capacity='next_instance_type'."
        )
    return types


def merge_config(request: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request with `config` over it: mappings are merged, all other values are replaced.

    Raises:
        AirflowFailException: `config` has a part that only the task may give. A retry cannot help.
    """
    reserved = [path for path in TASK_FIELDS if _has(config, path.split("."))]
    if reserved:
        raise AirflowFailException(f"config must not have {', '.join(reserved)}: the task gives them itself.")
    return _merge(request, config)


def _has(config: Any, path: Sequence[str]) -> bool:
    return not path or (isinstance(config, Mapping) and path[0] in config and _has(config[path[0]], path[1:]))


def _merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    merged = {
        name: _merge(base[name], value)
        for name, value in overrides.items()
        if isinstance(value, Mapping) and isinstance(base.get(name), Mapping)
    }
    return {**base, **overrides, **merged}


def check_checkpoint_folder(request: Mapping[str, Any], bucket: str) -> None:
    """Check that the checkpoints have a folder of their own, in the task's bucket.

    Raises:
        AirflowFailException: they have none. A retry cannot help.
    """
    uri = str(request["CheckpointConfig"].get("S3Uri", ""))
    folder = uri.rstrip("/") + "/"
    if not folder.startswith(f"s3://{bucket}/") or folder == f"s3://{bucket}/":
        raise AirflowFailException(f"the checkpoints must be in a folder of s3://{bucket}, not in {uri or 'none'}.")
    for name, other_uri in _list_folders(request):
        other = other_uri.rstrip("/") + "/"
        if folder.startswith(other) or other.startswith(folder):
            raise AirflowFailException(f"the checkpoints' folder {uri} and {name} {other_uri} overlap.")


def _list_folders(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "the models' folder", str(request["OutputDataConfig"].get("S3OutputPath", ""))
    for channel in request["InputDataConfig"]:
        uri = channel.get("DataSource", {}).get("S3DataSource", {}).get("S3Uri")
        if uri:
            yield f"the channel {channel.get('ChannelName')}", str(uri)


def check_shape(request: Mapping[str, Any], model: Shape) -> None:
    """Check the types, patterns and limits of the service's own model; botocore checks only types.

    Raises:
        AirflowFailException: SageMaker would refuse the request. A retry cannot help.
    """
    report = ParamValidator().validate(request, model)
    problems = (
        report.generate_report().splitlines() if report.has_errors() else list(_find_problems(request, model, ""))
    )
    if problems:
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise AirflowFailException(f"SageMaker would refuse the request: {'; '.join(problems[:5])}{more}.")


def _find_problems(value: Any, model: Any, path: str) -> Iterator[str]:
    """Yield what is wrong in one value and in the values inside of it."""
    if model.type_name == "structure":
        for name, item in value.items():
            yield from _find_problems(item, model.members[name], f"{path}.{name}".lstrip("."))
    elif model.type_name == "list":
        yield from _check_size(len(value), "entries", model, path)
        for n, item in enumerate(value):
            yield from _find_problems(item, model.member, f"{path}[{n}]")
    elif model.type_name == "map":
        yield from _check_size(len(value), "entries", model, path)
        for name, item in value.items():
            yield from _find_problems(name, model.key, f"a name in {path}")
            yield from _find_problems(item, model.value, f"{path}.{name}")
    elif model.type_name == "string":
        yield from _check_text(value, model, path)


def _check_text(value: str, model: Any, path: str) -> Iterator[str]:
    yield from _check_size(len(value), "characters", model, path)
    pattern = model.metadata.get("pattern", "")
    if pattern and "\\p{" not in pattern and not re.fullmatch(pattern, value, re.DOTALL):  # Python's re knows no \p{}
        yield f"{path} {value[:80]!r} is not of the form {pattern}"


def _check_size(size: int, unit: str, model: Any, path: str) -> Iterator[str]:
    least, most = model.metadata.get("min", 0), model.metadata.get("max")
    if size < least or (most is not None and size > most):
        yield f"{path} has {size} {unit}, and may have {least} to {most if most is not None else 'any number'}"
