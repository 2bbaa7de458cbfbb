"""The operator that deploys the version that an endpoint served before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leeway.operators.deploy import DeployOperator


class EndpointRollbackOperator(DeployOperator):
    """Deploy the version that an endpoint served before its present one. Idempotent.

    All requests move to that version at once. Neither alarms nor the budget can prevent this. The model's history says
    which version the endpoint served before. A DAG run rolls back once, even if its task is retried or cleared. To go
    back further, trigger another run. The champion of the registry stays: `RollbackOperator` changes it. The operator
    also takes the other arguments of DeployOperator.

    Args:
        model: registered model (templated).
        endpoint: name of the endpoint (templated); by default the model's name.
        serving: values that replace those of section `serving` of the parameters (templated).

    Returns:
        the same fields as DeployOperator.
    """

    previous = True  # see DeployOperator

    def __init__(
        self, *, model: str, endpoint: str = "", serving: Mapping[str, Any] | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(model=model, endpoint=endpoint, serving=serving, **kwargs)
