"""Check whether each service of the stack answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import requests

from stack.services.record import Stack

AIRFLOW_COMPONENTS = {"scheduler": "scheduler", "dag_processor": "dag-processor", "triggerer": "triggerer"}
"""The command of each component, by the component's name in Airflow's health report."""
_TIMEOUT_S = 5.0


def build_health_checks(stack: Stack) -> dict[str, Callable[[], bool]]:
    """Return a health check for each service, by name. Without an answer, a check returns False."""
    checks: dict[str, Callable[[], bool]] = {
        "drydock": lambda: _get(f"{stack.drydock_url}/drydock/health") is not None,
        "mlflow": lambda: _get(f"{stack.mlflow_url}/health") is not None,
        "docs": lambda: _get(stack.docs_url) is not None,
        "airflow-api-server": lambda: _read_airflow_health(stack) is not None,
    }
    for component, command in AIRFLOW_COMPONENTS.items():
        checks[f"airflow-{command}"] = lambda component=component: _is_component_healthy(stack, component)  # type: ignore[misc]
    return checks


def _is_component_healthy(stack: Stack, component: str) -> bool:
    report = (_read_airflow_health(stack) or {}).get(component) or {}
    heartbeat = report.get(f"latest_{component}_heartbeat")
    if report.get("status") != "healthy" or not heartbeat:
        return False
    # For half a minute, Airflow reports the last heartbeat of a stack that has ended as healthy.
    return datetime.fromisoformat(heartbeat) >= stack.started_at


def _read_airflow_health(stack: Stack) -> dict[str, Any] | None:
    response = _get(f"{stack.airflow_url}/api/v2/monitor/health")
    return response.json() if response is not None else None


def _get(url: str) -> requests.Response | None:
    try:
        with requests.Session() as session:
            session.trust_env = False  # a proxy cannot reach this machine's loopback addresses
            response = session.get(url, timeout=_TIMEOUT_S)
    except requests.RequestException:
        return None
    return response if response.ok else None
