"""Simulate failures of drydock's services, and let a task's clients see them."""

from __future__ import annotations

from typing import Any

import requests

ONE_ATTEMPT = {"retries": {"total_max_attempts": 1}}
"""Configuration of clients that do not retry: more attempts of the client would hide an outage from the task."""


def post_to_drydock(drydock: Any, endpoint: str, **body: Any) -> None:
    """Send a request to one of drydock's own endpoints, which simulate failures."""
    requests.post(f"{drydock.url}/drydock/{endpoint}", json=body, timeout=120).raise_for_status()
