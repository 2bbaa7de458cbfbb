"""Count the runs that Airflow would start for a backfill: `python -m leeway.backfill_runs DAG FIRST LAST`.

`pipelines` works without Airflow, so `python -m pipelines costs forecast` starts this module as a process. The module
writes the number, or the report of an error as JSON, to stdout. It starts no run.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

from pipelines.contract import Report
from pipelines.errors import DataError, InvalidError, LeewayError, ServiceError, SpecError
from pipelines.settings import settings

TIMEOUT_S = 180
"""Longest time for Airflow's dry run, seconds. The dry run of a year of days takes 2 s."""
_RUN_LINE = re.compile(r"^\| +.*\d{4}-\d{2}-\d{2}", re.MULTILINE)
"""A run's line in the table that Airflow prints."""


def count_runs(dag_id: str, first: str, last: str) -> int:
    """Count the runs that Airflow would start for a backfill.

    Args:
        dag_id: DAG to backfill.
        first: first day, YYYY-MM-DD.
        last: last day, included.

    Raises:
        InvalidError: Airflow does not know the DAG, refuses the backfill, or is not set up here. A retry cannot help.
        ServiceError: Airflow failed. A retry can help.
    """
    command = [sys.executable, "-m", "airflow", "backfill", "create", "--dry-run", "--dag-id", dag_id]
    command += ["--from-date", first, "--to-date", last]
    environment = os.environ | {"AIRFLOW_HOME": str(_find_airflow_home())}
    try:
        process = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        message = f"Airflow did not answer within {TIMEOUT_S} s."
        raise ServiceError(message, "Check that its database runs, then try again.") from None
    if process.returncode:
        raise _translate_failure(dag_id, f"{process.stdout}\n{process.stderr}")
    return len(_RUN_LINE.findall(process.stdout))


def _find_airflow_home() -> Path:
    """Return AIRFLOW_HOME; if it is not set, the first of LEEWAY_HOME/airflow and ~/airflow that is a home of Airflow.

    Raises:
        SpecError: Airflow is not installed. A retry cannot help.
        InvalidError: none of these folders is a home of Airflow. A retry cannot help.
    """
    if importlib.util.find_spec("airflow") is None:
        raise SpecError("Airflow is not installed here.", "Give --runs N.")
    defaults = [settings().home / "airflow", Path("~/airflow").expanduser()]
    configured_home = os.environ.get("AIRFLOW_HOME")
    for folder in [Path(configured_home)] if configured_home else defaults:
        if (folder / "airflow.cfg").exists() or (folder / "airflow.db").exists():
            return folder
    # Without this error, Airflow would create a home with an empty database.
    raise InvalidError("Airflow is not set up here.", "Run `make up` once, or set AIRFLOW_HOME, or give --runs N.")


def _translate_failure(dag_id: str, output: str) -> LeewayError:
    if "DagNotFound" in output:
        return DataError(f"Airflow has no DAG {dag_id}.", "List the DAGs with `airflow dags list`, or give --runs N.")
    if "Database migration required" in output:
        return InvalidError("Airflow's database is not set up.", "Run `make up` once, or give --runs N.")
    last_line = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    if last_line.startswith("airflow."):  # an exception of Airflow, which refuses the backfill
        reason = (last_line.partition(": ")[2] or last_line).rstrip(".")
        return InvalidError(f"Airflow refuses this backfill: {reason}.", "Change the days, or give --runs N.")
    return ServiceError(f"Airflow failed: {last_line}.", "Try again, or give --runs N.")


def main() -> None:
    """Write the number of runs, or the report of an error, to stdout; exit with the error's code."""
    try:
        sys.stdout.write(f"{count_runs(*sys.argv[1:])}\n")
    except LeewayError as error:
        sys.stdout.write(Report.from_error(error).model_dump_json())
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    main()
