"""Define the training for which `choose` chooses an instance type, and its choice."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from pipelines.planning.recommendation.workloads import Basis


class Training(Protocol):
    """A training that is about to start; `ChooseInstanceSpec` describes each field."""

    instance_types: list[str]
    region: str
    instance_count: int
    spot: bool
    max_run_s: int | None
    max_wait_s: int | None
    deadline: str
    budget_usd: float | None
    model: str
    dag_id: str
    task_id: str
    workload: dict[str, Any]
    input_bytes: int | None


@dataclass(frozen=True)
class Choice:
    """The chosen type, all types that may be used (the chosen one first), the reason, and the prediction.

    `ChooseInstanceResult` describes each field.
    """

    instance_type: str
    instance_types: tuple[str, ...]
    instance_choice: str
    predicted_s: float | None = None
    predicted_usd: float | None = None
    uncorrected_s: float | None = None
    uncorrected_usd: float | None = None
    prediction_basis: Basis | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the fields with their values."""
        return asdict(self)
