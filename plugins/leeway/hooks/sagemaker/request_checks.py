"""Check a job's request before it is sent to AWS. Each error is one line that says what to give instead."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from airflow.sdk.exceptions import AirflowFailException
from botocore.model import Shape
from botocore.validate import ParamValidator

INSTANCE_TYPE = re.compile(r"ml\.[a-z0-9-]+\.[a-z0-9]+")
MAX_VOLUME_GB = 16_384
"""SageMaker's limit of VolumeSizeInGB."""
TASK_FIELDS = (
    *("TrainingJobName", "ProcessingJobName", "TransformJobName", "HyperParameterTuningJobName", "ModelName", "Tags"),
    *("HyperParameterTuningJobConfig.ResourceLimits.MaxNumberOfTrainingJobs", "WarmStartConfig"),
    *("TransformOutput.S3OutputPath", "ProcessingOutputConfig.Outputs"),
)
"""Parts of the request that only the task may set, because it finds its jobs, outputs and costs by them."""


def parse_count(name: str, value: Any, maximum: int | None = None) -> int:
    """Return `value` as a whole number. Templates render to strings, which botocore refuses.

    Args:
        name: name of the value in the error.
        value: a number, or the text of a number.
        maximum: largest allowed number; None: no limit.

    Raises:
        AirflowFailException: `value` is not a whole number from 1 to `maximum`. A retry cannot help.
    """
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise AirflowFailException(f"{name} is not a whole number: {value!r}.") from None
    if number < 1 or (maximum is not None and number > maximum) or number != float(value):
        bounds = f"from 1 to {maximum}" if maximum else "of 1 or more"
        raise AirflowFailException(f"{name} must be a whole number {bounds}: it is {value!r}.")
    return number


def parse_usd(name: str, value: Any) -> float | None:
    """Return `value` as an amount of US dollars; None if it is None, or a template that rendered to "" or "None".

    Raises:
        AirflowFailException: `value` is not a number above 0. A retry cannot help.
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


def check_list(name: str, value: Any) -> list[str]:
    """Return the entries of a list as texts; an empty list if `value` is empty or None.

    Args:
        name: name of the value in the error.
        value: the list. A string is refused, because its letters would be taken for the entries.

    Raises:
        AirflowFailException: `value` is not a list. A retry cannot help.
    """
    if not value:
        return []
    if isinstance(value, str) or not isinstance(value, (Sequence, Set)):
        raise AirflowFailException(f"{name} must be a list, such as ['ml.m5.large']: it is {value!r}.")
    return [str(entry) for entry in value]


def check_instance_types(
    task: str, instance_type: str, instance_types: Sequence[str] | None, policies: Sequence[str], policy: str
) -> list[str]:
    """Check the instance types, and return them in the order in which they are tried.

    Args:
        task: name of the task in the error.
        instance_type: the only type, if `instance_types` is empty.
        instance_types: types to try in turn, or None.
        policies: values that `policy` may have.
        policy: the task's on_no_capacity: what to do if a job got no instances.

    Raises:
        AirflowFailException: a type or the policy is wrong. A retry cannot help.
    """
    if policy not in policies:
        raise AirflowFailException(f"on_no_capacity of {task} is {policy!r}: give one of {', '.join(policies)}.")
    types = check_list(f"instance_types of {task}", instance_types) or [str(instance_type)]
    invalid_types = [name for name in types if not INSTANCE_TYPE.fullmatch(name)]
    if invalid_types:
        raise AirflowFailException(
            f"not instance types of SageMaker: {', '.join(invalid_types)}; an example is ml.m5.large."
        )
    if policy == "fail" and len(types) > 1:
        raise AirflowFailException(
            f"{task} names {len(types)} instance types, but on_no_capacity='fail' uses only the first: "
            "give on_no_capacity='next_instance_type'."
        )
    return types


def merge_config(request: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request with `config` merged into it: mappings are merged, all other values are replaced.

    Raises:
        AirflowFailException: `config` has a part that only the task may set. A retry cannot help.
    """
    reserved_paths = [path for path in TASK_FIELDS if _has_path(config, path.split("."))]
    if reserved_paths:
        raise AirflowFailException(f"config must not have {', '.join(reserved_paths)}: the task sets them itself.")
    return _merge(request, config)


def _has_path(config: Any, path: Sequence[str]) -> bool:
    return not path or (isinstance(config, Mapping) and path[0] in config and _has_path(config[path[0]], path[1:]))


def _merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    merged_values = {
        name: _merge(base[name], value)
        for name, value in overrides.items()
        if isinstance(value, Mapping) and isinstance(base.get(name), Mapping)
    }
    return {**base, **overrides, **merged_values}


def check_checkpoint_folder(request: Mapping[str, Any], bucket: str) -> None:
    """Check that the checkpoints have a folder of their own, in the task's bucket.

    Raises:
        AirflowFailException: the folder is in another bucket, or overlaps with another folder. A retry cannot help.
    """
    uri = str(request["CheckpointConfig"].get("S3Uri", ""))
    folder = uri.rstrip("/") + "/"
    if not folder.startswith(f"s3://{bucket}/") or folder == f"s3://{bucket}/":
        raise AirflowFailException(f"the checkpoints must be in a folder of s3://{bucket}: S3Uri is {uri!r}.")
    for name, other_uri in _list_folders(request):
        other_folder = other_uri.rstrip("/") + "/"
        if folder.startswith(other_folder) or other_folder.startswith(folder):
            raise AirflowFailException(
                f"the checkpoints' folder {uri} and {name} {other_uri} overlap: give them separate folders."
            )


def _list_folders(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "the models' folder", str(request["OutputDataConfig"].get("S3OutputPath", ""))
    for channel in request["InputDataConfig"]:
        uri = channel.get("DataSource", {}).get("S3DataSource", {}).get("S3Uri")
        if uri:
            yield f"the channel {channel.get('ChannelName')}", str(uri)


def check_shape(request: Mapping[str, Any], shape: Shape) -> None:
    """Check a request by the types, patterns and limits of botocore's service description.

    boto3 checks types, required members and smallest values, but neither patterns nor largest sizes.

    Args:
        request: the complete request.
        shape: botocore's description of the operation's input.

    Raises:
        AirflowFailException: SageMaker would refuse the request. A retry cannot help.
    """
    report = ParamValidator().validate(request, shape)
    problems = (
        report.generate_report().splitlines() if report.has_errors() else list(_find_problems(request, shape, path=""))
    )
    if problems:
        rest_text = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise AirflowFailException(f"SageMaker would refuse the request: {'; '.join(problems[:5])}{rest_text}.")


def _find_problems(value: Any, shape: Any, path: str) -> Iterator[str]:
    """Yield each problem of a value and of the values inside it."""
    if shape.type_name == "structure":
        for name, item in value.items():
            yield from _find_problems(item, shape.members[name], f"{path}.{name}".lstrip("."))
    elif shape.type_name == "list":
        yield from _find_size_problem(len(value), "entries", shape, path)
        for index, item in enumerate(value):
            yield from _find_problems(item, shape.member, f"{path}[{index}]")
    elif shape.type_name == "map":
        yield from _find_size_problem(len(value), "entries", shape, path)
        for name, item in value.items():
            yield from _find_problems(name, shape.key, f"a name in {path}")
            yield from _find_problems(item, shape.value, f"{path}.{name}")
    elif shape.type_name == "string":
        yield from _find_text_problems(value, shape, path)


def _find_text_problems(value: str, shape: Any, path: str) -> Iterator[str]:
    yield from _find_size_problem(len(value), "characters", shape, path)
    pattern = shape.metadata.get("pattern", "")
    if pattern and "\\p{" not in pattern and not re.fullmatch(pattern, value, re.DOTALL):  # Python's re knows no \p{}
        yield f"{path} {value[:80]!r} is not of the form {pattern}"


def _find_size_problem(size: int, unit: str, shape: Any, path: str) -> Iterator[str]:
    minimum, maximum = shape.metadata.get("min", 0), shape.metadata.get("max")
    if size < minimum or (maximum is not None and size > maximum):
        yield f"{path} has {size} {unit}, and may have {minimum} to {'any number' if maximum is None else maximum}"
