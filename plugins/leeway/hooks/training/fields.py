"""The fields of SpotTrainingOperator that describe the training job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leeway.hooks.sagemaker.machines import OnNoCapacity


@dataclass(frozen=True)
class TrainingFields:
    """The rendered fields of SpotTrainingOperator. The docstring of the operator describes each."""

    entry_point: str
    bundle: str
    channels: Mapping[str, str]
    code: str
    hyperparameters: Mapping[str, Any] | None
    role_arn: str
    bucket: str
    prefix: str
    framework: str
    framework_version: str
    image_uri: str
    instance_type: str
    instance_types: Sequence[str] | None
    instance_count: int | str
    distribution: Mapping[str, Any] | None
    sharded_channels: Sequence[str]
    volume_size_gb: int | str
    spot: bool
    max_run_s: int | str
    max_wait_s: int | str
    on_no_capacity: OnNoCapacity
    budget_usd: float | str | None
    project: str
    model: str
    environment: Mapping[str, str] | None
    config: Mapping[str, Any] | None
    check_interval_s: int | str
