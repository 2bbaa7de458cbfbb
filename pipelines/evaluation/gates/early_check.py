"""Check the gate's policy before anything is trained, so that a misspelt metric does not cost a training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.dataset import Dataset
from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.gates.task_policy import complete_policy
from pipelines.evaluation.own_metrics import load_own_metrics
from pipelines.evaluation.statistics.weighted import list_metrics


def check_gate_section(section: Mapping[str, Any], dataset: Dataset) -> None:
    """Check that the policy in a section `gate` of the parameters fits the models of the dataset.

    Raises:
        SpecError: the dataset's metrics.py is not valid, or the gate would refuse the policy. For example, the policy
            names a metric that neither the task nor metrics.py has. A retry cannot help.
        pydantic.ValidationError: the policy has an unknown field or a wrong value. A retry cannot help.
    """
    metrics = {**list_metrics(dataset.task), **load_own_metrics(dataset)}
    complete_policy(Policy(**section.get("policy", {})), dataset.task, metrics, are_classes_known=False)
