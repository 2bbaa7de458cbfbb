"""What a training task is given: where its calls go, and the operator's fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leeway.hooks.machines import OnNoCapacity


@dataclass(frozen=True)
class Place:
    """Where the calls go: fields of every operator of the provider."""

    aws_conn_id: str | None
    region_name: str | None
    verify: bool | str | None
    botocore_config: dict[str, Any] | None

    def hook(self, kind: Any) -> Any:
        """A hook of the provider."""
        place = {"aws_conn_id": self.aws_conn_id, "region_name": self.region_name, "verify": self.verify}
        return kind(**place, config=self.botocore_config)


@dataclass(frozen=True)
class Fields:
    """The fields of the operator that say what to train, rendered; see there."""

    entry_point: str
    bundle: str
    channels: Mapping[str, str]
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
