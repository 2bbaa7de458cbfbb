"""The fields of the operators that run the training script, and those of SpotTrainingOperator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leeway.hooks.sagemaker.machines import OnNoCapacity


@dataclass(frozen=True)
class ScriptFields:
    """The rendered fields of an operator that runs the training script. The operator's docstring describes each."""

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
    instance_count: int | str
    volume_size_gb: int | str
    spot: bool
    max_run_s: int | str | None
    max_wait_s: int | str | None
    budget_usd: float | str | None
    project: str
    model: str
    environment: Mapping[str, str] | None
    config: Mapping[str, Any] | None
    check_interval_s: int | str
    priority: str


@dataclass(frozen=True)
class TrainingFields(ScriptFields):
    """The rendered fields of SpotTrainingOperator. The docstring of the operator describes each."""

    instance_types: Sequence[str] | None
    distribution: Mapping[str, Any] | None
    sharded_channels: Sequence[str]
    on_no_capacity: OnNoCapacity
    tuning: Mapping[str, Any] | None
    deadline: str = ""
    job_queue: str = ""
    share: str = ""
    max_queue_s: int | str = 604_800
    workload: Mapping[str, Any] | None = None
