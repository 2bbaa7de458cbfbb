"""The operator that deploys the version that an endpoint served before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leeway.operators.deploy import DeployOperator


class EndpointRollbackOperator(DeployOperator):
    """Deploy the version that an endpoint served before its present one: at once, without alarms and budget.

    The model's history says which version that was. A DAG run rolls back once, also if its task is retried or cleared.
    To go back further, trigger another run. The champion of the registry stays: `RollbackOperator` changes it.
    Idempotent, as DeployOperator is, whose other arguments it has, too.

    Args:
        model: registered model (templated).
        endpoint: name of the endpoint (templated); by default the model's name.
        serving: values that replace those of section `serving` of the parameters (templated).

    Returns:
        as DeployOperator.
    """

    previous = True

    def __init__(
        self, *, model: str, endpoint: str = "", serving: Mapping[str, Any] | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(model=model, endpoint=endpoint, serving=serving, **kwargs)
