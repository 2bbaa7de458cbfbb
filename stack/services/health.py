"""Check whether each service of the stack answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import requests

from stack.layout import Layout
from stack.services.commands import API_SERVER, STATUS
from stack.services.record import Stack

AIRFLOW_COMPONENTS = {"scheduler": "scheduler", "dag_processor": "dag-processor", "triggerer": "triggerer"}
"""For each component in Airflow's health report, the name of Airflow's command that runs it."""
_AIRFLOW_PATHS = ("/api/v2/monitor/health", "/execution/health")
"""Paths of the two APIs of Airflow's API server: the one for users, and the one for tasks."""
_TIMEOUT_S = 5.0
MAX_WATCH_AGE = timedelta(minutes=2)
"""The service `status` counts as hanging if it last checked the lake longer ago than this."""


def build_health_checks(layout: Layout, stack: Stack) -> dict[str, Callable[[], bool]]:
    """Return a health check for each service, by name. Without an answer, a check returns False."""
    checks: dict[str, Callable[[], bool]] = {
        "drydock": lambda: _get(f"{stack.drydock_url}/drydock/health") is not None,
        "mlflow": lambda: _get(f"{stack.mlflow_url}/health") is not None,
        "docs": lambda: _get(stack.docs_url) is not None,
        STATUS: lambda: _is_lake_watched(layout, stack),
        API_SERVER: lambda: all(_get(f"{stack.airflow_url}{path}") is not None for path in _AIRFLOW_PATHS),
    }
    for component, command in AIRFLOW_COMPONENTS.items():
        service = f"airflow-{command}"
        checks[service] = partial(_is_component_healthy, stack, component, service)
    return checks


def _is_lake_watched(layout: Layout, stack: Stack) -> bool:
    """Return whether the service `status` has checked the lake lately, and since it was last started."""
    try:
        seconds = layout.watched_file.stat().st_mtime
    except OSError:
        return False
    watched_at = datetime.fromtimestamp(seconds, UTC)
    return watched_at >= max(stack.get_start_time(STATUS), datetime.now(UTC) - MAX_WATCH_AGE)


def _is_component_healthy(stack: Stack, component: str, service: str) -> bool:
    report = _read_airflow_health(stack).get(component) or {}
    heartbeat = report.get(f"latest_{component}_heartbeat")
    if report.get("status") != "healthy" or not heartbeat:
        return False
    # For up to a minute after a process has ended, Airflow still reports it as healthy, with its last heartbeat.
    return datetime.fromisoformat(heartbeat) >= stack.get_start_time(service)


def _read_airflow_health(stack: Stack) -> dict[str, Any]:
    """Return Airflow's health report by component; an empty dict if there is none."""
    response = _get(f"{stack.airflow_url}{_AIRFLOW_PATHS[0]}")
    try:
        report = response.json() if response is not None else {}
    except requests.RequestException:  # another program answers
        return {}
    return report if isinstance(report, dict) else {}


def _get(url: str) -> requests.Response | None:
    try:
        with requests.Session() as session:
            session.trust_env = False  # a proxy cannot reach this machine's loopback addresses
            response = session.get(url, timeout=_TIMEOUT_S)
    except requests.RequestException:
        return None
    return response if response.ok else None
