"""Compare the AWS calls of a test with infra/policies/calls.json, by which the policies of the roles were written."""

from __future__ import annotations

import json
from pathlib import Path

from tools.record_calls import CALLS_FILE, is_recorded

HINT = "run `python tools/record_calls.py`, and allow the call in infra/policies/airflow.json or job.json"


def read_recorded_calls() -> set[tuple[str, str, str]]:
    """Return the calls in calls.json: role, action, resource."""
    return {(call["role"], call["action"], call["resource"]) for call in json.loads(CALLS_FILE.read_text())}


def list_new_calls(file: Path) -> list[str]:
    """List the calls in a file of tests/tools/recording.py that are not in calls.json, one description for each.

    The last line may be incomplete while the server writes it: it is left out, and the next test reads it.
    """
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    calls = {tuple(json.loads(line)) for line in lines if line.endswith("\n")}
    new_calls = sorted(call for call in calls if is_recorded(call[2]) and call not in read_recorded_calls())
    return [f"{role}: {action} on {resource}" for role, action, resource in new_calls]
