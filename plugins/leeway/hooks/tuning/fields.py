"""The fields of TuningOperator that describe the tuning job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leeway.hooks.training.fields import ScriptFields


@dataclass(frozen=True)
class TuningFields(ScriptFields):
    """The rendered fields of TuningOperator. The docstring of the operator describes each."""

    plan: Mapping[str, Any] | None
    warm_start: str | Sequence[str] | None
    metric_regex: str
