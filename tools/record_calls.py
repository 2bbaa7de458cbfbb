"""Notes which calls of AWS the tests make, in infra/policies/calls.json: what the roles' policies have to allow.

`python tools/record_calls.py` runs the tests of the operators against a drydock that notes each sort of call it gets:
who made it (a task or step of Airflow, or a job), the action as IAM names it, and on what.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CALLS = ROOT / "infra" / "policies" / "calls.json"
TESTS = ROOT / "tests" / "integration" / "leeway"
# Of all that talk to AWS; the others start whole stacks and make no call that these do not make.
FILES = [
    "batch_score",
    "costs_sweep",
    "dag_runs",
    "dvc_remote",
    "flights_job",
    "glue",
    "mirror",
    "secrets",
    "spark_preprocess",
    "spot_training",
]
OURS = (":::leeway", ":::leeway-lake")
"""Buckets of the tests; some ask for one that nobody has."""


def main() -> int:
    """calls.json is what the tests do now, where they pass. Gives pytest's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        noted = Path(folder) / "calls"
        command = [sys.executable, "-m", "pytest", "-q", *(str(TESTS / f"test_{one}.py") for one in FILES)]
        ended = subprocess.run(command, cwd=ROOT, env={**os.environ, "RECORD_CALLS": str(noted)}, check=False)
        if ended.returncode == 0:
            write(noted.read_text().splitlines())
    return ended.returncode


def write(lines: list[str]) -> None:
    """Leaves calls.json with each call once, sorted."""
    calls = sorted({tuple(json.loads(line)) for line in lines})
    calls = [one for one in calls if ":s3:" not in one[2] or one[2].split("/")[0].endswith(OURS)]
    told = [{"role": role, "action": action, "resource": resource} for role, action, resource in calls]
    CALLS.write_text("[\n" + ",\n".join(f"  {json.dumps(one)}" for one in told) + "\n]\n")


if __name__ == "__main__":
    sys.exit(main())
