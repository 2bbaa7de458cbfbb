"""Measure a walk-forward backtest of ten months, and then the same trainings repeated with promotion.

The commands are those of docs/how-to/backfills.md. The backfill of flights_train uses real Airflow, DVC workspaces,
drydock and MLflow. Each training's time and cost are predicted from the trainings before it, as `leeway plan` does.
LEEWAY_BENCH_MONTHS sets a smaller number of months. The report stays in .leeway/benchmarks/backtest/.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.stack_clone import PROJECT, TRAIN_SERVICES, StackClone, run_stack
from stack.airflow.backfill import Backfill
from stack.airflow.client import AirflowClient, ConflictError
from stack.airflow.dag_parsing import unpause_when_parsed
from stack.errors import StackError
from stack.services.commands import USER, read_password

MONTHS = int(os.environ.get("LEEWAY_BENCH_MONTHS", "10"))
DAG, STEPS = "flights_train", ("preprocess", "train", "evaluate", "gate", "promote")
FIRST_DAY = dt.date(2013, 1, 1)
MOMENTS = [dt.date(2013, 3 + n, 1) for n in range(MONTHS)]
"""Days as of which models are trained: the first days of the months from March on."""
LAST_DAY = (MOMENTS[-1] + dt.timedelta(31)).replace(day=1) - dt.timedelta(1)
"""Last day of the month that begins with the last of `MOMENTS`: the last day that the last model predicts."""
REPORT_FOLDER = PROJECT / ".leeway" / "benchmarks" / "backtest"
REPEAT_OPTIONS = {"reprocess_behavior": "completed", "dag_run_conf": {"promote_in_backfill": True}}
"""Options of a backfill that repeats a finished backtest, with promotion in each run."""
REGISTRY_SCRIPT = """
import json
from pipelines.registry.versions import Registry

registry = Registry.open()
champion, versions = registry.find_champion("flights"), registry.list_versions("flights")
print(json.dumps({
    "champion": champion.version if champion else None,
    "versions": [{"version": version.version, **{k.removeprefix("leeway."): v for k, v in version.tags.items()}}
                 for version in versions],
}, default=str))
"""
PREDICTIONS_SCRIPT = """
import json
from benchmarks.decisions.planner import describe_ledger

print(json.dumps(describe_ledger()))
"""


def run() -> dict[str, Any]:
    """Run the backtest and its repetition. Return the measured seconds by name, and other values as facts.

    Raises:
        RuntimeError: a run failed, or the registry has a fault after a backfill.
    """
    with tempfile.TemporaryDirectory() as folder, run_stack(Path(folder), TRAIN_SERVICES) as clone:
        api = AirflowClient(clone.stack.airflow_url, USER, read_password(clone.layout))
        unpause_when_parsed(api, [DAG], clone.stack.started_at, check=lambda: None)
        clone.run_python(
            "-m", "pipelines", "backfill", "--dataset", "flights", "--first", str(FIRST_DAY), "--last", str(LAST_DAY)
        )
        backtest_s, state, lines = _run_backtest(clone, api)
        predictions: dict[str, Any] = json.loads(clone.run_python("-c", PREDICTIONS_SCRIPT).stdout)
        repetition_s, state_after = _run_repetition(clone, api, state)
    facts = {"backtest": _summarize(state), "repetition": _summarize(state_after), "report": lines} | predictions
    return {"seconds": backtest_s | repetition_s, "facts": facts}


def find_faults(state: Mapping[str, Any], moments: Sequence[dt.date]) -> dict[str, Any]:
    """Return the faults of the registry after a backfill that promotes nothing; empty without faults.

    Args:
        state: the output of the script `REGISTRY_SCRIPT`.
        moments: the moments as of which models should have been trained.
    """
    moments_of_versions = [version.get("as_of") for version in state["versions"]]
    faults: dict[str, Any] = {}
    if moments_of_versions != [str(moment) for moment in moments]:
        faults["versions as of"] = moments_of_versions
    if state["champion"]:
        faults["champion, although a backtest must not promote"] = state["champion"]
    # Each version has to be compared with the newest earlier version that passed.
    last_passed_version = "none"  # the text of the tag if no earlier version passed
    for version in state["versions"]:
        if version["verdict"] == "passed":
            if version.get("would_promote_over") != last_passed_version:
                faults[f"version {version['version']} would be promoted over"] = version.get("would_promote_over")
            last_passed_version = version["version"]
    return faults


def find_repetition_faults(state_before: Mapping[str, Any], state_after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the faults of the registry after the second backfill, with promotion; empty without faults."""
    faults: dict[str, Any] = {}
    passed_versions = [version["version"] for version in state_before["versions"] if version["verdict"] == "passed"]
    if state_after["champion"] != (passed_versions[-1] if passed_versions else None):
        faults["champion"] = state_after["champion"]
    for version_before, version_after in zip(state_before["versions"], state_after["versions"], strict=True):
        if (version_before["version"], version_before["verdict"]) != (
            version_after["version"],
            version_after["verdict"],
        ):
            faults[f"version {version_after['version']} now"] = version_after["verdict"]
    promoted_versions = [version["version"] for version in state_after["versions"] if "promoted_over" in version]
    return faults if promoted_versions == passed_versions else faults | {"promoted": promoted_versions}


def _raise_if_faulty(faults: Mapping[str, Any]) -> None:
    if faults:
        raise RuntimeError(f"the registry is wrong after the backfill of {DAG}: {faults}")


def _run_backtest(clone: StackClone, api: AirflowClient) -> tuple[dict[str, list[float]], dict[str, Any], list[str]]:
    """Run the backtest. Return its seconds, the state of the registry, and the lines of the report."""
    seconds = _run_backfill(clone, api, f"{MONTHS} trainings") | _read_task_seconds(api)
    state = _read_registry(clone)
    _raise_if_faulty(find_faults(state, MOMENTS))
    return seconds, state, _write_report(clone)


def _run_repetition(
    clone: StackClone, api: AirflowClient, state_before: Mapping[str, Any]
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Repeat the runs with promotion. Return their seconds, and the state of the registry."""
    seconds = _run_backfill(clone, api, f"{MONTHS} trainings repeated, with promotion", REPEAT_OPTIONS)
    state_after = _read_registry(clone)
    _raise_if_faulty(find_repetition_faults(state_before, state_after))
    return seconds, state_after


def _run_backfill(
    clone: StackClone, api: AirflowClient, name: str, repeat_options: Mapping[str, Any] | None = None
) -> dict[str, list[float]]:
    """Run the backfill. Return the seconds of the whole, under `name`, and of each run.

    With `repeat_options`, Airflow repeats all runs of the earlier backfill.
    """
    # `Backfill.complete` below requests only missing runs, so the repetition of finished runs is requested here.
    while repeat_options and not _request_backfill(api, repeat_options):
        time.sleep(1)  # the scheduler checks only twice a minute whether a backfill has ended
    start_s = time.monotonic()
    printed_counts: set[int] = set()

    def print_progress(done_count: int, total: int, running_days: str) -> None:
        if done_count not in printed_counts:
            printed_counts.add(done_count)
            elapsed_s = time.monotonic() - start_s
            print(f"{elapsed_s:6.0f} s: {done_count} of {total} runs done, running: {running_days}", flush=True)

    try:
        backfill = Backfill(api, DAG, MOMENTS, max_active_runs=1, stack_started_at=clone.stack.started_at)
        backfill.complete(print_progress)
    except StackError as error:
        raise RuntimeError(f"{error}\n{error.details}") from None
    runs = [_compute_seconds(run["start_date"], run["end_date"]) for run in api.list_runs(DAG)]
    return {name: [time.monotonic() - start_s], f"{name}: a DAG run": runs}


def _request_backfill(api: AirflowClient, repeat_options: Mapping[str, Any]) -> bool:
    """Request the repetition. Return False if Airflow refuses it, because another backfill of the DAG runs.

    If the answer to an earlier request was lost, the backfill that runs may be the repetition. Then the result is True.
    """
    dates = {"from_date": f"{MOMENTS[0]}T00:00:00Z", "to_date": f"{MOMENTS[-1]}T00:00:00Z"}
    try:
        api.request("POST", "/backfills", json={"dag_id": DAG, **dates, "max_active_runs": 1, **repeat_options})
    except ConflictError:
        backfills = api.request("GET", "/backfills", params={"dag_id": DAG})["backfills"]
        return any(
            item["completed_at"] is None and item["dag_run_conf"] == repeat_options["dag_run_conf"]
            for item in backfills
        )
    return True


def _run_command(clone: StackClone, *command: str) -> str:
    """Run a command with the variables that docs/how-to/backfills.md names, and return its output."""
    variables = {"AIRFLOW_HOME": str(clone.layout.airflow), "MLFLOW_TRACKING_URI": clone.stack.mlflow_url}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, **variables, "LEEWAY_HOME": str(clone.layout.home), "PATH": path}
    result = subprocess.run(command, cwd=clone.project, env=env, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr[-2000:]}")
    return result.stdout


def _read_registry(clone: StackClone) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(clone.run_python("-c", REGISTRY_SCRIPT).stdout)
    return state


def _write_report(clone: StackClone) -> list[str]:
    """Write the report's image and page to `REPORT_FOLDER`. Return what the command printed.

    The last line, which names the files, is left out.
    """
    lines = _run_command(
        clone, "python", "-m", "pipelines", "backtest", "report", "--model", "flights", "--out", str(REPORT_FOLDER)
    ).splitlines()
    return lines[:-1]


def _summarize(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "versions": len(state["versions"]),
        "passed": [version["as_of"] for version in state["versions"] if version["verdict"] == "passed"],
        "champion": state["champion"],
    }


def _read_task_seconds(api: AirflowClient) -> dict[str, list[float]]:
    """Return the seconds of the successful tasks of each step of `STEPS`."""
    tasks = [task for task in api.list_task_instances(DAG, "~") if task["state"] == "success"]
    return {f"the task {step}": [task["duration"] for task in tasks if task["task_id"] == step] for step in STEPS}


def _compute_seconds(start_date: str, end_date: str) -> float:
    return (dt.datetime.fromisoformat(end_date) - dt.datetime.fromisoformat(start_date)).total_seconds()
