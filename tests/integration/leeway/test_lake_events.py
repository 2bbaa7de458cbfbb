"""Test asset events and watermarks in a real Airflow (scheduler, API server, DAG processor) with a real lake.

Each test needs the state that the tests before it leave.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.tools import forking
from tests.tools.airflow_api import open_retrying_session
from tests.tools.groups import end_group

ROOT = Path(__file__).parents[3]
PARTS = {
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "api-server": ["api-server"],
}
MONITOR = """
import datetime as dt
from airflow.sdk import DAG
from leeway.lifecycle.monitoring_dag import create_monitoring_dag

start, end = dt.datetime(2013, 1, 1, tzinfo=dt.UTC), dt.datetime(2013, 12, 31, tzinfo=dt.UTC)
# Without an end, the scheduler starts a run for today, whose drift would start the training first.
create_monitoring_dag(model="flights", dataset="flights", start=start, end=end, schedule="0 0 * * *")
"""
DAGS = """
import datetime as dt, json, os, pathlib
from airflow.sdk import DAG, Asset, CronPartitionTimetable, IdentityMapper, PartitionedAssetTimetable, task
from leeway.operators.guard import GuardOperator
from leeway.operators.ingest import IngestOperator
from leeway.operators.sync import SyncOperator
from leeway.operators.validate import ValidateOperator

FLIGHTS = Asset(name="flights", uri="x-leeway://lake/flights")
ORDERS, STAGED = (Asset(name=name, uri=f"x-leeway://lake/{name}") for name in ("orders", "orders_raw"))
SOURCES, RECEIVED = os.environ["TEST_SOURCES"], pathlib.Path(os.environ["TEST_RECEIVED"])
DAILY = CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d")
PERIOD = {f"{edge}_date": dt.datetime(2013, month, 1, tzinfo=dt.UTC) for edge, month in (("start", 3), ("end", 4))}

@task
def record_events(name, dag_run=None, triggering_asset_events=None):
    extras = [event.extra for events in triggering_asset_events.values() for event in events]
    path = RECEIVED / f"{name}-{dag_run.run_id.replace('/', '_')}.json"
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(json.dumps([dag_run.partition_key, extras]))
    temporary.rename(path)

@task
def list_partitions(result):
    return result["partitions"]

with DAG("flights", schedule=DAILY, catchup=False, **PERIOD):
    options = {"retries": 2, "retry_delay": dt.timedelta(seconds=0.1)}
    ingest = IngestOperator(task_id="ingest", dataset="flights", folder=SOURCES, **options)
    ingest >> ValidateOperator(task_id="validate", dataset="flights", asset=FLIGHTS, **options)
def schedule_same_day(asset):
    return PartitionedAssetTimetable(assets=asset, default_partition_mapper=IdentityMapper())

with DAG("flights_reader", schedule=schedule_same_day(FLIGHTS)):
    record_events("flights")
with DAG("orders", schedule=None, max_active_runs=1):
    sync = SyncOperator(task_id="sync", dataset="orders", asset=STAGED, folder=SOURCES)
    publish = ValidateOperator.partial(task_id="publish", dataset="orders", asset=ORDERS, outlets=[ORDERS])
    publish.expand(partition=list_partitions(sync.output))
with DAG("orders_reader", schedule=schedule_same_day(ORDERS)):
    record_events("orders")

DRIFT = Asset(name="flights_drift", uri="x-leeway://drift/flights")
with DAG("trainer", schedule=[DRIFT], params={"as_of": None}):
    GuardOperator(task_id="guard", dataset="flights", model="flights") >> record_events("drift")
"""
DRIFT_STEP = """#!%s
import datetime as dt, json, os, sys
if "drift" not in sys.argv:
    os.execv("%s", ["python", *sys.argv[1:]])
spec, out = (sys.argv[sys.argv.index(name) + 1] for name in ("--spec", "--out"))
spec = json.load(open(spec))
as_of, drifted = dt.date.fromisoformat(spec["partition"]) + dt.timedelta(1), spec["partition"] > "2013-03-07"
result = dict(partition=spec["partition"], as_of=str(as_of), model_name="flights", version="1", missing=[], page="",
    outcome="drift" if drifted else "none", reasons=["score: psi 0.4"], drifted_columns=["score"],
    retrain=drifted and str(spec["backfill"]) == "False")
json.dump({"schema_version": 1, **result}, open(out, "w"))
"""
"""A stand-in for the step `drift`, which needs a champion and its profiles. The step has its own tests."""
SUITE = {
    "expectations": [
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}, "severity": "critical", "meta": {}}
    ]
}
FILES = {
    "flights.csv": "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,"
    "tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n"
    "2013,3,1,800,755,5,1010,1000,10,UA,1,N1,JFK,BOS,60,187,7,55,2013-03-01T11:00:00Z\n"
    "2013,3,2,800,755,5,1010,1000,10,UA,1,N1,JFK,BOS,60,187,7,55,2013-03-02T11:00:00Z\n"
    "2013,3,3,800,755,5,1010,1000,10,UA,1,N1,JFK,BOS,60,187,7,55,2013-03-03T11:00:00Z\n",
    "weather.csv": "origin,time_hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib\n",
    "planes.csv": "tailnum,year,manufacturer,seats\nN1,1999,BOEING,150\n",
}
SETTINGS = {
    "CORE__LOAD_EXAMPLES": False, "CORE__EXECUTOR": "LocalExecutor", "CORE__PARALLELISM": 4,
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": False, "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
    "CORE__HOSTNAME_CALLABLE": "socket.gethostname",
    "API__HOST": "127.0.0.1", "API__WORKERS": 1, "API__SECRET_KEY": "only-for-this-test",
    "API_AUTH__JWT_SECRET": "only-for-this-test-and-long-enough-for-sha512-only-for-this-test-and-long",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.4, "USAGE_DATA_COLLECTION__ENABLED": False,
}  # fmt: skip


class Airflow:
    """An Airflow without a triggerer, and the events that its consumers received."""

    def __init__(self, folder: Path, port: int, orders: Any) -> None:
        self.folder, self.url, self.orders = folder, f"http://127.0.0.1:{port}", orders
        self.received = folder / "received"
        variables = {
            **{f"AIRFLOW__{name}": str(value) for name, value in SETTINGS.items()},
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__PORT": str(port),
            "LEEWAY_PROJECT": str(folder / "project"),
            "LEEWAY_HOME": str(folder / "home"),
            "PYTHONPATH": os.pathsep.join([str(folder / "project"), str(ROOT), str(ROOT / "plugins")]),
            "TEST_SOURCES": str(orders.folder),
            "TEST_RECEIVED": str(self.received),
            "LEEWAY_PYTHON": str(folder / "python"),
        }
        self.env = {**os.environ, **variables}

    @cached_property
    def token(self) -> str:
        return str(requests.get(f"{self.url}/auth/token", timeout=180).json()["access_token"])

    @cached_property
    def session(self) -> requests.Session:
        return open_retrying_session()

    def call_api(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        response = self.session.request(method, f"{self.url}/api/v2{path}", headers=headers, timeout=180, **options)
        response.raise_for_status()
        return response.json()

    def is_ready(self) -> bool:
        with contextlib.suppress(requests.RequestException, KeyError, ValueError):
            assert not self.call_api("GET", "/importErrors")["import_errors"]
            return len(self.call_api("GET", "/dags")["dags"]) == 6
        return False

    def backfill(self, first: str, last: str, dag_id: str = "flights") -> None:
        body = {"dag_id": dag_id, "from_date": f"{first}T00:00:00Z", "to_date": f"{last}T00:00:00Z"}
        # Pause the DAG, as the product's stack does: the scheduler ends when it reads a run that the API rolls back.
        self.call_api("PATCH", f"/dags/{dag_id}", json={"is_paused": True})
        self.call_api("POST", "/backfills", json={**body, "reprocess_behavior": "none", "max_active_runs": 2})
        self.call_api("PATCH", f"/dags/{dag_id}", json={"is_paused": False})

    def rerun_days(self) -> None:
        """Clear the runs of all days, so that they run once more."""
        for run in self.list_runs("flights"):
            path = f"/dags/flights/dagRuns/{run['dag_run_id']}/clear"
            self.call_api("POST", path, json={"dry_run": False, "only_failed": False})

    def set_delay(self, day: str, arr_delay: int) -> None:
        """Set the delay, in minutes, of the flight of a day in the source."""
        path = self.orders.folder / "flights.csv"
        rows = [line.split(",") for line in path.read_text().splitlines()]
        for row in rows:
            row[8] = str(arr_delay) if row[-1].startswith(day) else row[8]
        path.write_text("\n".join(",".join(row) for row in rows) + "\n")

    def run_step(self, *arguments: str) -> dict[str, Any]:
        """Run a step on the same lake, outside Airflow; return its result."""
        command = [forking.ensure_stand_in(), "-m", "pipelines", *arguments]
        options: dict[str, Any] = {"cwd": self.env["LEEWAY_PROJECT"], "env": self.env, "capture_output": True}
        return dict(json.loads(subprocess.run(command, check=True, **options).stdout))

    def trigger(self, dag_id: str, **conf: str) -> str:
        body = {"logical_date": None, "conf": conf}
        return str(self.call_api("POST", f"/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def list_runs(self, dag_id: str) -> list[dict[str, Any]]:
        return list(self.call_api("GET", f"/dags/{dag_id}/dagRuns")["dag_runs"])

    def list_tasks(self, dag_id: str, task_id: str) -> list[dict[str, Any]]:
        tasks = self.call_api("GET", f"/dags/{dag_id}/dagRuns/~/taskInstances")["task_instances"]
        return [task for task in tasks if task["task_id"] == task_id]

    def list_events(self, name: str) -> list[dict[str, Any]]:
        events = self.call_api("GET", "/assets/events?limit=100&order_by=timestamp")["asset_events"]
        return [event for event in events if event["name"] == name]

    def read_received(self, name: str) -> list[Any]:
        """Return what each run of an asset's consumer received: its partition key, and the extras of the events."""
        return [json.loads(path.read_text()) for path in sorted(self.received.glob(f"{name}-*"), key=os.path.getmtime)]


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    until: Callable[..., Any],
    free_port: Callable[[], int],
    make_orders: Any,
    put_airflow_database: Callable[[Path], None],
) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("events")
    server = Airflow(folder, free_port(), make_orders(folder / "sources"))
    for name in ("dags", "project/pipelines/datasets", "project/expectations", "received"):
        (folder / name).mkdir(parents=True)
    (folder / "dags/all.py").write_text(DAGS)
    (folder / "dags/flights_monitor.py").write_text(MONITOR)
    (folder / "python").write_text(DRIFT_STEP % (sys.executable, forking.ensure_stand_in()))
    (folder / "python").chmod(0o755)
    for path in (ROOT / "pipelines").iterdir():
        if path.name != "datasets":
            (folder / "project/pipelines" / path.name).symlink_to(path)
    for path in (*(ROOT / "pipelines/datasets").iterdir(), server.orders.folder / "orders"):
        (folder / "project/pipelines/datasets" / path.name).symlink_to(path)
    for name in ("flights", "orders"):
        (folder / f"project/expectations/{name}.json").write_text(json.dumps(SUITE))
    for name, text in FILES.items():
        (server.orders.folder / name).write_text(text)
    options: dict[str, Any] = {"cwd": folder, "env": server.env, "stdin": subprocess.DEVNULL}
    put_airflow_database(folder)
    processes = []
    for part, arguments in PARTS.items():
        with (folder / f"{part}.log").open("wb") as log:
            command = [sys.executable, "-m", "airflow", *arguments]
            processes.append(forking.Popen(command, stdout=log, stderr=log, start_new_session=True, **options))
    try:
        until(server.is_ready, 300)
        yield server
    finally:
        for process in processes:
            end_group(process)


@pytest.fixture
def wait_for_success(airflow: Airflow, until: Callable[..., Any]) -> Callable[..., None]:
    """Return the function that waits until the runs of a DAG and its task succeeded, with these numbers of tries."""

    def wait(dag_id: str, task_id: str, tries: list[int]) -> None:
        def has_succeeded() -> bool:
            tasks, runs = airflow.list_tasks(dag_id, task_id), airflow.list_runs(dag_id)
            assert "failed" not in {row["state"] for row in [*tasks, *runs]}
            all_succeeded = {row["state"] for row in [*tasks, *runs]} == {"success"}
            return all_succeeded and sorted(task["try_number"] for task in tasks) == sorted(tries)

        until(has_succeeded, 300)

    return wait


@pytest.mark.stateful
def test_event_of_a_published_day_reaches_the_consumers_of_its_partition(airflow, wait_for_success, until):
    airflow.backfill("2013-03-01", "2013-03-03")
    wait_for_success("flights", "validate", [1, 1, 1])
    until(lambda: len(airflow.read_received("flights")) == 3, 300)
    days = sorted(event["partition_key"] for event in airflow.list_events("flights"))
    assert days == ["2013-03-01", "2013-03-02", "2013-03-03"]
    for key, (extra,) in airflow.read_received("flights"):
        assert extra["partition"] == key
        assert extra["changes"] == {"added": 1, "removed": 0, "changed": 0}
        assert extra["snapshot_id"] > 0


@pytest.mark.soak
def test_only_days_that_changed_since_their_event_emit_one(airflow, wait_for_success, until):
    """One day is unchanged, and one has late data. A process outside Airflow publishes the third one.

    The latter is as after a task that is killed after its commit: the next try has to emit the event.
    """
    airflow.set_delay("2013-03-02", 31)
    airflow.set_delay("2013-03-03", 47)
    airflow.run_step(
        "ingest", "--dataset", "flights", "--partition", "2013-03-03", "--folder", str(airflow.orders.folder)
    )
    assert airflow.run_step("validate", "--dataset", "flights", "--partition", "2013-03-03")["changed"] is True
    airflow.rerun_days()
    wait_for_success("flights", "validate", [2, 2, 2])
    until(lambda: len(airflow.read_received("flights")) == 5, 300)
    late, published = sorted(airflow.read_received("flights")[-2:])
    assert (late[0], late[1][0]["changes"]) == ("2013-03-02", {"added": 0, "removed": 0, "changed": 1})
    assert (published[0], published[1][0]["changed"]) == ("2013-03-03", False)
    days = sorted(event["partition_key"] for event in airflow.list_events("flights"))
    assert days == ["2013-03-01", "2013-03-02", "2013-03-02", "2013-03-03", "2013-03-03"]


def test_airflow_stores_the_watermark(airflow, wait_for_success, until):
    airflow.trigger("orders")
    wait_for_success("orders", "publish", [1, 1, 1])
    assert not list((airflow.folder / "home").glob("watermarks/*.json"))
    until(lambda: len(airflow.read_received("orders")) == 3, 300)
    assert {key for key, _ in airflow.read_received("orders")} == {"2026-01-01", "2026-01-02", "2026-01-03"}
    airflow.orders.put_order("2026-01-02", 3, "paid", 6)
    airflow.trigger("orders")
    wait_for_success("orders", "publish", [1, 1, 1, 1])
    until(lambda: len(airflow.read_received("orders")) == 4, 300)
    key, (extra,) = airflow.read_received("orders")[-1]
    assert (key, extra["changes"]) == ("2026-01-02", {"added": 0, "removed": 0, "changed": 1})


def test_drift_starts_a_training_as_of_its_day_and_the_guard_holds_back_the_next(airflow, until):
    """The product's own DAG emits the event. The event of a run with a partition key would start nothing."""

    def list_guard_states() -> list[str]:
        tasks = sorted(airflow.list_tasks("trainer", "guard"), key=lambda task: task["start_date"] or "9")
        return [str(task["state"]) for task in tasks]

    def list_drift_states() -> list[str]:
        return sorted(str(task["state"]) for task in airflow.list_tasks("flights_monitor", "drift"))

    airflow.call_api("PATCH", "/dags/flights_monitor", json={"is_paused": False})
    airflow.backfill("2013-03-07", "2013-03-08", dag_id="flights_monitor")
    # The first day has no drift, and a backfill may not retrain on the second.
    until(lambda: list_drift_states() == ["skipped", "skipped"], 300)
    airflow.trigger("flights_monitor", partition="2013-03-09")
    until(lambda: airflow.read_received("drift"), 300)
    ((_, (extra,)),) = airflow.read_received("drift")
    assert (extra["as_of"], extra["reason"], extra["drifted_columns"]) == ("2013-03-10", "score: psi 0.4", ["score"])
    assert list_guard_states() == ["success"]
    airflow.trigger("flights_monitor", partition="2013-03-10")
    until(lambda: list_guard_states() == ["success", "skipped"], 300)
    command = [sys.executable, "-m", "pipelines", "loop", "events", "flights", "--json"]
    options: dict[str, Any] = {"cwd": airflow.env["LEEWAY_PROJECT"], "env": airflow.env, "capture_output": True}
    events = json.loads(forking.run(command, check=True, **options).stdout)
    rows = [(event["kind"], event["as_of"], event["trigger"], event["guard"]) for event in events]
    assert rows == [
        ("started", "2013-03-10", "drift", ""),
        ("held_back", "2013-03-11", "drift", "in_flight"),  # without record_outcome the first training never ends
    ]
    assert len(airflow.list_events("flights_drift")) == 2
