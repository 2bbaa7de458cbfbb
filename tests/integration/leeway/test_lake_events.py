"""Events and watermarks in a real Airflow (scheduler, API server, DAG processor), over real steps and a real lake.

The tests of this module follow one another.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.tools.airflow_api import open_retrying_session
from tests.tools.groups import end_group

ROOT = Path(__file__).parents[3]
PARTS = {
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "api-server": ["api-server"],
}
DAGS = """
import datetime as dt, json, os, pathlib
from airflow.sdk import DAG, Asset, CronPartitionTimetable, IdentityMapper, PartitionedAssetTimetable, task
from leeway.operators.guard import GuardOperator
from leeway.operators.ingest import IngestOperator
from leeway.operators.sync import SyncOperator
from leeway.operators.validate import ValidateOperator

FLIGHTS = Asset(name="flights", uri="x-leeway://lake/flights")
ORDERS, STAGED = (Asset(name=name, uri=f"x-leeway://lake/{name}") for name in ("orders", "orders_raw"))
SOURCES, SEEN = os.environ["TEST_SOURCES"], pathlib.Path(os.environ["TEST_SEEN"])
ALWAYS = CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d")
BETWEEN = {f"{which}_date": dt.datetime(2013, month, 1, tzinfo=dt.UTC) for which, month in (("start", 3), ("end", 4))}

@task
def see(name, dag_run=None, triggering_asset_events=None):
    told = [event.extra for events in triggering_asset_events.values() for event in events]
    path = SEEN / f"{name}-{dag_run.run_id.replace('/', '_')}.json"
    half = path.with_name(f".{path.name}")
    half.write_text(json.dumps([dag_run.partition_key, told]))
    half.rename(path)

@task
def partitions(result):
    return result["partitions"]

with DAG("flights", schedule=ALWAYS, catchup=False, **BETWEEN):
    options = {"retries": 2, "retry_delay": dt.timedelta(seconds=0.1)}
    ingest = IngestOperator(task_id="ingest", dataset="flights", folder=SOURCES, **options)
    ingest >> ValidateOperator(task_id="validate", dataset="flights", asset=FLIGHTS, **options)
def same_day(asset):
    return PartitionedAssetTimetable(assets=asset, default_partition_mapper=IdentityMapper())

with DAG("flights_reader", schedule=same_day(FLIGHTS)):
    see("flights")
with DAG("orders", schedule=None, max_active_runs=1):
    sync = SyncOperator(task_id="sync", dataset="orders", asset=STAGED, folder=SOURCES)
    publish = ValidateOperator.partial(task_id="publish", dataset="orders", asset=ORDERS, outlets=[ORDERS])
    publish.expand(partition=partitions(sync.output))
with DAG("orders_reader", schedule=same_day(ORDERS)):
    see("orders")

DRIFT = Asset(name="flights_drift", uri="x-leeway://drift/flights")
with DAG("trainer", schedule=[DRIFT], params={"as_of": None}):
    GuardOperator(task_id="guard", dataset="flights", model_name="flights") >> see("drift")
"""
SAW = """#!%s
import datetime as dt, json, os, sys
if "drift" not in sys.argv:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
spec, out = (sys.argv[sys.argv.index(name) + 1] for name in ("--spec", "--out"))
spec = json.load(open(spec))
as_of, drifted = dt.date.fromisoformat(spec["partition"]) + dt.timedelta(1), spec["partition"] > "2013-03-07"
told = dict(partition=spec["partition"], as_of=str(as_of), model_name="flights", version="1", missing=[], page="",
    outcome="drift" if drifted else "none", reasons=["score: psi 0.4"], worst=["score"],
    retrain=drifted and str(spec["backfill"]) == "False")
json.dump({"schema_version": 1, **told}, open(out, "w"))
"""
"""In the place of the step `drift`, which needs a champion and its profiles; its own tests have them."""
SUITE = {
    "expectations": [
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}, "severity": "critical", "meta": {}}
    ]
}
FILES = {
    "flights.csv": "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,"
    "tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n"
    "2013,3,1,800,755,5,1010,1000,10,UA,1,N1,JFK,BOS,60,187,7,55,2013-03-01T11:00:00Z\n"
    "2013,3,2,800,755,5,1010,1000,10,UA,1,N1,JFK,BOS,60,187,7,55,2013-03-02T11:00:00Z\n",
    "weather.csv": "origin,time_hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib\n",
    "planes.csv": "tailnum,year,manufacturer,seats\nN1,1999,BOEING,150\n",
}
SETTINGS = {
    "CORE__LOAD_EXAMPLES": False, "CORE__EXECUTOR": "LocalExecutor", "CORE__PARALLELISM": 4,
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": False, "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
    "CORE__HOSTNAME_CALLABLE": "socket.gethostname",
    "API__HOST": "127.0.0.1", "API__WORKERS": 1, "API__SECRET_KEY": "only-for-this-test",
    "API_AUTH__JWT_SECRET": "only-for-this-test-and-long-enough-for-sha512-only-for-this-test-and-long",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.1, "USAGE_DATA_COLLECTION__ENABLED": False,
}  # fmt: skip


class Airflow:
    """An Airflow without a triggerer, and what its readers saw."""

    def __init__(self, folder: Path, port: int, orders: Any) -> None:
        self.folder, self.url, self.orders = folder, f"http://127.0.0.1:{port}", orders
        self.seen = folder / "seen"
        own = {
            **{f"AIRFLOW__{name}": str(value) for name, value in SETTINGS.items()},
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__PORT": str(port),
            "LEEWAY_PROJECT": str(folder / "project"),
            "LEEWAY_HOME": str(folder / "home"),
            "PYTHONPATH": os.pathsep.join([str(folder / "project"), str(ROOT), str(ROOT / "plugins")]),
            "TEST_SOURCES": str(orders.folder),
            "TEST_SEEN": str(self.seen),
            "LEEWAY_PYTHON": str(folder / "python"),
        }
        self.env = {**os.environ, **own}

    @cached_property
    def token(self) -> str:
        return str(requests.get(f"{self.url}/auth/token", timeout=60).json()["access_token"])

    @cached_property
    def session(self) -> requests.Session:
        return open_retrying_session()

    def call(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = self.session.request(method, f"{self.url}/api/v2{path}", headers=headers, timeout=60, **options)
        answer.raise_for_status()
        return answer.json()

    def healthy(self) -> bool:
        with contextlib.suppress(requests.RequestException, KeyError, ValueError):
            assert not self.call("GET", "/importErrors")["import_errors"]
            return len(self.call("GET", "/dags")["dags"]) == 6
        return False

    def backfill(self, first: str, last: str, dag_id: str = "flights") -> None:
        body = {"dag_id": dag_id, "from_date": f"{first}T00:00:00Z", "to_date": f"{last}T00:00:00Z"}
        # As our stack does: a scheduler that looks at one of the runs that are taken back would end.
        self.call("PATCH", f"/dags/{dag_id}", json={"is_paused": True})
        self.call("POST", "/backfills", json={**body, "reprocess_behavior": "none", "max_active_runs": 2})
        self.call("PATCH", f"/dags/{dag_id}", json={"is_paused": False})

    def again(self) -> None:
        """Lets the runs of the days run once more."""
        for run in self.runs("flights"):
            path = f"/dags/flights/dagRuns/{run['dag_run_id']}/clear"
            self.call("POST", path, json={"dry_run": False, "only_failed": False})

    def mend(self, day: str, arr_delay: int) -> None:
        """The flight of a day arrives so many minutes late, in the source."""
        path = self.orders.folder / "flights.csv"
        rows = [line.split(",") for line in path.read_text().splitlines()]
        for row in rows:
            row[8] = str(arr_delay) if row[-1].startswith(day) else row[8]
        path.write_text("\n".join(",".join(row) for row in rows) + "\n")

    def step(self, *arguments: str) -> dict[str, Any]:
        """The result of a step, run by hand over the same lake."""
        command = [sys.executable, "-m", "pipelines", *arguments]
        options: dict[str, Any] = {"cwd": self.env["LEEWAY_PROJECT"], "env": self.env, "capture_output": True}
        return dict(json.loads(subprocess.run(command, check=True, **options).stdout))

    def trigger(self, dag_id: str, **conf: str) -> str:
        body = {"logical_date": None, "conf": conf}
        return str(self.call("POST", f"/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        return list(self.call("GET", f"/dags/{dag_id}/dagRuns")["dag_runs"])

    def tasks(self, dag_id: str, task_id: str) -> list[dict[str, Any]]:
        found = self.call("GET", f"/dags/{dag_id}/dagRuns/~/taskInstances")["task_instances"]
        return [one for one in found if one["task_id"] == task_id]

    def events(self, name: str) -> list[dict[str, Any]]:
        found = self.call("GET", "/assets/events?limit=100&order_by=timestamp")["asset_events"]
        return [one for one in found if one["name"] == name]

    def told(self, name: str) -> list[Any]:
        """What the readers of an asset saw: partition key of the run, extras of the events."""
        return [json.loads(path.read_text()) for path in sorted(self.seen.glob(f"{name}-*"), key=os.path.getmtime)]


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    until: Callable[..., Any],
    free_port: Callable[[], int],
    make_orders: Any,
    put_airflow_database: Callable[[Path], None],
) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("events")
    made = Airflow(folder, free_port(), make_orders(folder / "sources"))
    for name in ("dags", "project/pipelines/datasets", "project/expectations", "seen"):
        (folder / name).mkdir(parents=True)
    (folder / "dags/all.py").write_text(DAGS)
    shutil.copy(ROOT / "dags/flights_monitor.py", folder / "dags")
    (folder / "python").write_text(SAW % sys.executable)
    (folder / "python").chmod(0o755)
    for path in (ROOT / "pipelines").iterdir():
        if path.name != "datasets":
            (folder / "project/pipelines" / path.name).symlink_to(path)
    for path in (*(ROOT / "pipelines/datasets").iterdir(), made.orders.folder / "orders"):
        (folder / "project/pipelines/datasets" / path.name).symlink_to(path)
    for name in ("flights", "orders"):
        (folder / f"project/expectations/{name}.json").write_text(json.dumps(SUITE))
    for name, text in FILES.items():
        (made.orders.folder / name).write_text(text)
    options: dict[str, Any] = {"cwd": folder, "env": made.env, "stdin": subprocess.DEVNULL}
    put_airflow_database(folder)
    started = []
    for part, arguments in PARTS.items():
        with (folder / f"{part}.log").open("wb") as log:
            command = [sys.executable, "-m", "airflow", *arguments]
            started.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **options))
    try:
        until(made.healthy, 300)
        yield made
    finally:
        for process in started:
            end_group(process)


@pytest.fixture
def settled(airflow: Airflow, until: Callable[..., Any]) -> Callable[..., None]:
    """Returns once so many tasks of a kind have ended so often, all well, and the DAG's runs have too."""

    def wait(dag_id: str, task_id: str, tries: list[int]) -> None:
        def ended() -> bool:
            tasks, runs = airflow.tasks(dag_id, task_id), airflow.runs(dag_id)
            assert "failed" not in {one["state"] for one in [*tasks, *runs]}
            well = {one["state"] for one in [*tasks, *runs]} == {"success"}
            return well and sorted(one["try_number"] for one in tasks) == sorted(tries)

        until(ended, 300)

    return wait


def test_published_days_are_announced_to_consumers_of_their_partition(airflow, settled, until):
    airflow.backfill("2013-03-01", "2013-03-02")
    settled("flights", "validate", [1, 1])
    until(lambda: len(airflow.told("flights")) == 2, 300)
    assert sorted(event["partition_key"] for event in airflow.events("flights")) == ["2013-03-01", "2013-03-02"]
    for key, (extra,) in airflow.told("flights"):
        assert extra["partition"] == key
        assert extra["changes"] == {"added": 1, "removed": 0, "changed": 0}
        assert extra["snapshot_id"] > 0


def test_unchanged_days_emit_nothing_and_everything_is_green(airflow, settled):
    airflow.again()
    settled("flights", "validate", [2, 2])
    assert len(airflow.events("flights")) == 2


def test_late_data_is_announced_with_what_changed(airflow, settled, until):
    airflow.mend("2013-03-02", 31)
    airflow.again()
    settled("flights", "validate", [3, 3])
    until(lambda: len(airflow.told("flights")) == 3, 300)
    key, (extra,) = airflow.told("flights")[-1]
    assert (key, extra["changes"]) == ("2013-03-02", {"added": 0, "removed": 0, "changed": 1})
    assert len(airflow.events("flights")) == 3


def test_what_a_task_published_that_died_before_its_end_is_announced_by_the_next_try(airflow, settled, until):
    """Published by a process of which Airflow knows nothing, as by one that was killed after its commit."""
    airflow.mend("2013-03-01", 47)
    airflow.step("ingest", "--partition", "2013-03-01", "--folder", str(airflow.orders.folder))
    assert airflow.step("validate", "--partition", "2013-03-01")["changed"] is True
    airflow.again()
    settled("flights", "validate", [4, 4])
    until(lambda: len(airflow.told("flights")) == 4, 300)
    key, (extra,) = airflow.told("flights")[-1]
    assert (key, extra["changed"]) == ("2013-03-01", False)


def test_watermark_is_kept_by_airflow(airflow, settled, until):
    airflow.trigger("orders")
    settled("orders", "publish", [1, 1, 1])
    assert not list((airflow.folder / "home").glob("watermarks/*.json"))
    until(lambda: len(airflow.told("orders")) == 3, 300)
    assert {key for key, _ in airflow.told("orders")} == {"2026-01-01", "2026-01-02", "2026-01-03"}
    airflow.orders.put_order("2026-01-02", 3, "paid", 6)
    airflow.trigger("orders")
    settled("orders", "publish", [1, 1, 1, 1])
    until(lambda: len(airflow.told("orders")) == 4, 300)
    key, (extra,) = airflow.told("orders")[-1]
    assert (key, extra["changes"]) == ("2026-01-02", {"added": 0, "removed": 0, "changed": 1})


def test_drift_starts_a_training_as_of_its_day_and_the_next_is_held_back(airflow, until):
    """By the project's own DAG: a run of its partitions would have an event that starts nothing."""

    def guarded() -> list[str]:
        tasks = sorted(airflow.tasks("trainer", "guard"), key=lambda one: one["start_date"] or "9")
        return [str(one["state"]) for one in tasks]

    def seen() -> list[str]:
        return sorted(str(one["state"]) for one in airflow.tasks("flights_monitor", "drift"))

    airflow.call("PATCH", "/dags/flights_monitor", json={"is_paused": False})
    airflow.backfill("2013-03-07", "2013-03-08", dag_id="flights_monitor")
    until(lambda: seen() == ["skipped", "skipped"], 300)  # the one for it is calm, the other for it may not retrain
    airflow.trigger("flights_monitor", partition="2013-03-09")
    until(lambda: airflow.told("drift"), 300)
    ((_, (extra,)),) = airflow.told("drift")
    assert (extra["as_of"], extra["reason"], extra["worst"]) == ("2013-03-10", "score: psi 0.4", ["score"])
    assert guarded() == ["success"]
    airflow.trigger("flights_monitor", partition="2013-03-10")
    until(lambda: guarded() == ["success", "skipped"], 300)
    command = [sys.executable, "-m", "pipelines", "loop", "events", "flights", "--json"]
    options: dict[str, Any] = {"cwd": airflow.env["LEEWAY_PROJECT"], "env": airflow.env, "capture_output": True}
    events = json.loads(subprocess.run(command, check=True, **options).stdout)
    told = [(one["kind"], one["as_of"], one["trigger"], one["guard"]) for one in events]
    assert told == [
        ("started", "2013-03-10", "drift", ""),
        ("held_back", "2013-03-11", "drift", "in_flight"),  # it has no record_outcome, so it never ended
    ]
    assert len(airflow.events("flights_drift")) == 2
