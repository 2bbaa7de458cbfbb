"""Record in infra/policies/calls.json which AWS calls the tests make. The roles' IAM policies have to allow them.

`python tools/record_calls.py` runs the tests of the operators against a drydock that records each kind of call: the
role (that of Airflow's tasks and steps, or that of jobs), the action as IAM names it, and the resource. Every other run
of these tests also records its calls, and fails if a call is not in the file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CALLS_FILE = ROOT / "infra" / "policies" / "calls.json"
TEST_FOLDER = ROOT / "tests" / "integration" / "leeway"
# Together, these tests make all kinds of calls. Other tests that call AWS start whole stacks, and make no other kind.
TEST_NAMES = [
    "batch_score",
    "cheap_hours",
    "costs_sweep",
    "dag_runs",
    "deploy",
    "dvc_remote",
    "endpoint_costs",
    "endpoints",
    "flights_job",
    "glue",
    "idle_sweep",
    "mirror",
    "page_documents",
    "secrets",
    "shadow",
    "spark_preprocess",
    "spot_training",
    "training_queue",
    "tuning",
]
BUCKETS = (":::leeway", ":::leeway-lake")
"""The buckets of the tests. Calls on other buckets are not recorded: some tests name a bucket that does not exist."""


def main() -> int:
    """Run the tests, and rewrite calls.json if they pass. Return pytest's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        recorded_file = Path(folder) / "calls"
        files = (str(TEST_FOLDER / f"test_{name}.py") for name in TEST_NAMES)
        # The tests that `make test` leaves out (marker soak) run, too: only they make three of the kinds of call.
        command = [sys.executable, "-m", "pytest", "-q", "-m", "soak or not soak", *files]
        result = subprocess.run(command, cwd=ROOT, env={**os.environ, "RECORD_CALLS": str(recorded_file)}, check=False)
        if result.returncode == 0:
            write_calls(recorded_file.read_text().splitlines())
    return result.returncode


def write_calls(lines: list[str]) -> None:
    """Write each call once to calls.json, sorted.

    Args:
        lines: calls in JSON: role, action, resource.
    """
    calls = sorted({tuple(json.loads(line)) for line in lines})
    entries = [
        json.dumps({"role": role, "action": action, "resource": resource})
        for role, action, resource in calls
        if is_recorded(resource)
    ]
    CALLS_FILE.write_text("[\n" + ",\n".join(f"  {entry}" for entry in entries) + "\n]\n")


def is_recorded(resource: str) -> bool:
    """Return whether calls on a resource are recorded: on every resource, except buckets that BUCKETS does not list."""
    return ":s3:" not in resource or resource.split("/", maxsplit=1)[0].endswith(BUCKETS)


if __name__ == "__main__":
    sys.exit(main())
