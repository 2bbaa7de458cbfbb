"""Turn the operator's `distribution` into the hyperparameters by which SageMaker's images start torchrun or mpirun.

The names of the hyperparameters are the same as in the sagemaker SDK's estimators.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker.request_checks import parse_count

KINDS: dict[str, frozenset[str]] = {
    "torch_distributed": frozenset({"enabled"}),
    "mpi": frozenset({"enabled", "processes_per_host", "custom_mpi_options"}),
}
"""Maps each kind of distribution to the options that it has."""


def build_distribution_settings(distribution: Mapping[str, Any] | None, instance_type: str) -> dict[str, str]:
    """Return hyperparameters that start torchrun or mpirun; {} without a distribution.

    Args:
        distribution: {"torch_distributed": {"enabled": True}}, or {"mpi": {"enabled": True, "processes_per_host": 2,
            "custom_mpi_options": "-verbose"}}, as the sagemaker SDK has it.
        instance_type: type of the instances; if the task tries several types, the first.

    Raises:
        AirflowFailException: the distribution does not have one of these forms. A retry cannot help.
    """
    enabled_kinds = [kind for kind, options in (distribution or {}).items() if _is_enabled(kind, options)]
    if len(enabled_kinds) > 1:
        raise AirflowFailException(f"distribution enables {' and '.join(enabled_kinds)}: enable one of them.")
    if enabled_kinds == ["torch_distributed"]:
        return {"sagemaker_torch_distributed_enabled": "true", "sagemaker_instance_type": instance_type}
    if enabled_kinds == ["mpi"] and distribution:
        options = distribution["mpi"]
        count = parse_count("processes_per_host of distribution", options.get("processes_per_host", 1))
        return {
            "sagemaker_mpi_enabled": "true",
            "sagemaker_mpi_num_of_processes_per_host": str(count),
            "sagemaker_mpi_custom_mpi_options": str(options.get("custom_mpi_options", "")),
        }
    return {}


def _is_enabled(kind: str, options: Any) -> bool:
    example = 'give {"torch_distributed": {"enabled": True}} or {"mpi": {"enabled": True}}.'
    if kind not in KINDS or not isinstance(options, Mapping):
        raise AirflowFailException(f"distribution has {kind!r}: {options!r}, which is not supported: {example}")
    unknown_options = ", ".join(sorted(options.keys() - KINDS[kind]))
    if unknown_options:
        raise AirflowFailException(f"distribution: {kind} has no option {unknown_options}: {example}")
    return str(options.get("enabled", False)).lower() == "true"
