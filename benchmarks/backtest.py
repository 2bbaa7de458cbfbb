"""A year of trainings as a walk-forward backtest, then again with promotion.

By the commands of docs/how-to/backfills.md. The real thing: Airflow's backfill of flights_train, the DVC workspaces,
drydock, MLflow. LEEWAY_BENCH_MONTHS takes fewer months. The report stays in .leeway/benchmarks/backtest/.
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

from benchmarks.stack_clone import ALL_SERVICES, PROJECT, StackClone, run_stack
from stack.airflow.backfill import Backfill
from stack.airflow.client import AirflowClient, ConflictError
from stack.airflow.dag_parsing import wait_until_parsed
from stack.errors import StackError
from stack.services.commands import USER, read_password

MONTHS = int(os.environ.get("LEEWAY_BENCH_MONTHS", "10"))
DAG, STEPS = "flights_train", ("preprocess", "train", "evaluate", "gate", "promote")
FIRST = dt.date(2013, 1, 1)
MOMENTS = [dt.date(2013, 3 + n, 1) for n in range(MONTHS)]
LAST = (MOMENTS[-1] + dt.timedelta(31)).replace(day=1) - dt.timedelta(1)
"""Of the last month that a model is scored on."""
REPORT = PROJECT / ".leeway" / "benchmarks" / "backtest"
AGAIN = {"reprocess_behavior": "completed", "dag_run_conf": {"promote_in_backfill": True}}
"""What plays a finished backtest again, each run promoting."""
REGISTRY = """
import json
from pipelines.registry.versions import Registry

registry = Registry.open()
champion, versions = registry.champion("flights"), registry.versions("flights")
print(json.dumps({
    "champion": champion.version if champion else None,
    "versions": [{"version": one.version, **{k.removeprefix("leeway."): v for k, v in one.tags.items()}}
                 for one in versions],
}, default=str))
"""


def run() -> dict[str, Any]:
    """Measures, and returns seconds by row and the facts that the seconds do not say.

    Raises:
        RuntimeError: a run failed, or the registry holds something else than a backtest may leave.
    """
    with tempfile.TemporaryDirectory() as folder, run_stack(Path(folder), ALL_SERVICES) as clone:
        api = AirflowClient(clone.stack.airflow_url, USER, read_password(clone.layout))
        wait_until_parsed(api, [DAG], clone.stack.started_at, lambda: None)
        clone.run_python("-m", "pipelines", "backfill", "--first", str(FIRST), "--last", str(LAST))
        walked, left, lines = _walked(clone, api)
        replayed, after = _replayed(clone, api, left)
    facts = {"backtest": _facts(left), "replay": _facts(after), "report": lines}
    return {"seconds": walked | replayed, "facts": facts}


def faults(left: Mapping[str, Any], moments: Sequence[dt.date]) -> dict[str, Any]:
    """What a backfill of these moments should not have left; nothing where all is well.

    Args:
        left: what the script `REGISTRY` prints.
        moments: when models should have been trained as of.
    """
    found = [one.get("as_of") for one in left["versions"]]
    wrong: dict[str, Any] = {}
    if found != [str(moment) for moment in moments]:
        wrong["versions as of"] = found
    if left["champion"]:
        wrong["champion, though no alias may move"] = left["champion"]
    # Each meets the newest before it that passed: never one of its own future.
    passed = "none"
    for one in left["versions"]:
        if one["verdict"] == "passed":
            if one.get("would_promote_over") != passed:
                wrong[f"version {one['version']} would be promoted over"] = one.get("would_promote_over")
            passed = one["version"]
    return wrong


def replay_faults(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What playing the same runs again, with promotion, should not have left."""
    wrong: dict[str, Any] = {}
    passed = [one["version"] for one in before["versions"] if one["verdict"] == "passed"]
    if after["champion"] != passed[-1]:
        wrong["champion"] = after["champion"]
    for then, now in zip(before["versions"], after["versions"], strict=True):
        if (then["version"], then["verdict"]) != (now["version"], now["verdict"]):
            wrong[f"version {now['version']} now"] = now["verdict"]
    promoted = [one["version"] for one in after["versions"] if "promoted_over" in one]
    return wrong if promoted == passed else wrong | {"promoted": promoted}


def _demand(wrong: Mapping[str, Any]) -> None:
    if wrong:
        raise RuntimeError(f"the backfill of {DAG} left {wrong}")


def _walked(clone: StackClone, api: AirflowClient) -> tuple[dict[str, list[float]], dict[str, Any], list[str]]:
    """The backtest: its seconds, what it left in the registry, and the lines of its report."""
    seconds = _backfilled(clone, api, f"{MONTHS} trainings") | _tasks(api)
    left = _registry(clone)
    _demand(faults(left, MOMENTS))
    return seconds, left, _reported(clone)


def _replayed(
    clone: StackClone, api: AirflowClient, left: Mapping[str, Any]
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """The same runs again, each promoting: their seconds, and what the registry holds then."""
    seconds = _backfilled(clone, api, f"{MONTHS} trainings again, with promotion", AGAIN)
    after = _registry(clone)
    _demand(replay_faults(left, after))
    return seconds, after


def _backfilled(
    clone: StackClone, api: AirflowClient, row: str, again: Mapping[str, Any] | None = None
) -> dict[str, list[float]]:
    """Seconds of the whole, and of each run. Where some runs were there already, `again` says what becomes of them."""
    while again and not _asked(api, again):
        time.sleep(1)  # the scheduler notes only twice a minute that a backfill is over
    began = time.monotonic()
    said: set[int] = set()

    def show(done: int, total: int, running: str) -> None:
        if done not in said:
            said.add(done)
            print(f"{time.monotonic() - began:6.0f} s: {done} of {total} {running}", flush=True)

    try:
        Backfill(api, DAG, MOMENTS, 1, clone.stack.started_at).complete(show)
    except StackError as error:
        raise RuntimeError(f"{error}\n{error.details}") from None
    runs = [_between(one["start_date"], one["end_date"]) for one in api.list_runs(DAG)]
    return {row: [time.monotonic() - began], f"{row}: a DAG run": runs}


def _asked(api: AirflowClient, again: Mapping[str, Any]) -> bool:
    """Whether Airflow took the backfill on; not while another of the DAG is at work.

    A call that Airflow obeyed and then failed to answer is repeated, and refused for the backfill that it made itself.
    """
    span = {"from_date": f"{MOMENTS[0]}T00:00:00Z", "to_date": f"{MOMENTS[-1]}T00:00:00Z"}
    try:
        api.request("POST", "/backfills", json={"dag_id": DAG, **span, "max_active_runs": 1, **again})
    except ConflictError:
        there = api.request("GET", "/backfills", params={"dag_id": DAG})["backfills"]
        return any(one["completed_at"] is None and one["dag_run_conf"] == again["dag_run_conf"] for one in there)
    return True


def _by_hand(clone: StackClone, *command: str) -> str:
    """What a person's command prints, from a shell that knows no more than docs/how-to/backfills.md tells it."""
    told = {"AIRFLOW_HOME": str(clone.layout.airflow), "MLFLOW_TRACKING_URI": clone.stack.mlflow_url}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, **told, "LEEWAY_HOME": str(clone.layout.home), "PATH": path}
    done = subprocess.run(command, cwd=clone.project, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return done.stdout


def _registry(clone: StackClone) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(clone.run_python("-c", REGISTRY).stdout)
    return found


def _reported(clone: StackClone) -> list[str]:
    """The lines of the report, whose PNG and page are in `REPORT`."""
    lines = _by_hand(clone, "python", "-m", "pipelines", "backtest", "report", "--out", str(REPORT)).splitlines()
    return lines[:-1]


def _facts(left: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "versions": len(left["versions"]),
        "passed": [one["as_of"] for one in left["versions"] if one["verdict"] == "passed"],
        "champion": left["champion"],
    }


def _tasks(api: AirflowClient) -> dict[str, list[float]]:
    """Seconds of each task."""
    tasks = [one for one in api.list_tasks(DAG, "~") if one["state"] == "success"]
    return {f"the task {step}": [one["duration"] for one in tasks if one["task_id"] == step] for step in STEPS}


def _between(begin: str, end: str) -> float:
    return (dt.datetime.fromisoformat(end) - dt.datetime.fromisoformat(begin)).total_seconds()
