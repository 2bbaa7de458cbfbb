"""Hyperparameters: strings in the API, decoded from JSON for the script, as SageMaker's training toolkit does."""

import json
from collections.abc import Mapping
from typing import Any

# Hyperparameters with this prefix are settings of the training toolkit; the script does not get them.
TOOLKIT_PREFIX = "sagemaker_"
# A tuning job adds this hyperparameter to its training jobs. It is a setting of the toolkit, too.
TUNING_METRIC = "_tuning_objective_metric"


def decode_hyperparameters(request: Mapping[str, Any], *, include_toolkit_settings: bool = False) -> dict[str, Any]:
    """Return the hyperparameters of a request by name, decoded if they are JSON.

    Args:
        request: A CreateTrainingJob request.
        include_toolkit_settings: Whether to include the toolkit's own settings.
    """
    return {
        name: _decode(text)
        for name, text in request.get("HyperParameters", {}).items()
        if include_toolkit_settings or not (name.startswith(TOOLKIT_PREFIX) or name == TUNING_METRIC)
    }


def build_script_arguments(request: Mapping[str, Any]) -> list[str]:
    """Return the script's command-line arguments: every hyperparameter except the toolkit's own, sorted by name."""
    arguments: list[str] = []
    for name, value in sorted(decode_hyperparameters(request).items()):
        arguments += [f"--{name}" if len(name) > 1 else f"-{name}", _format_argument(value)]
    return arguments


def _decode(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _format_argument(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in sorted(value.items()))
    return str(value)
