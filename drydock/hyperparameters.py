"""Hyperparameters: strings in the API, JSON values to the script, as SageMaker's training toolkit reads them."""

import json
from collections.abc import Mapping
from typing import Any

TOOLKIT_PREFIX = "sagemaker_"


def own(request: Mapping[str, Any], *, toolkit: bool = False) -> dict[str, Any]:
    """Return the hyperparameters, those that are JSON decoded; with toolkit, the toolkit's own too."""
    given = request.get("HyperParameters", {}).items()
    return {name: _decoded(value) for name, value in given if toolkit or not name.startswith(TOOLKIT_PREFIX)}


def user_arguments(request: Mapping[str, Any]) -> list[str]:
    """Return the script's arguments: every hyperparameter that is not the toolkit's own, sorted by name."""
    arguments: list[str] = []
    for name, value in sorted(own(request).items()):
        arguments += [f"--{name}" if len(name) > 1 else f"-{name}", _argument(value)]
    return arguments


def _decoded(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _argument(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in sorted(value.items()))
    return str(value)
