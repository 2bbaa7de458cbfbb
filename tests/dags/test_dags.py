"""The DAGs of dags/: they load, say what they promise, and render for every kind of run."""

import ast
import copy
import datetime as dt
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import Asset, AssetOrTimeSchedule, CronPartitionTimetable
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError
from airflow.sdk.execution_time.comms import AssetEventDagRunReferenceResult
from airflow.sdk.execution_time.context import TriggeringAssetEventsAccessor

from pipelines.steps import spec_of

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "dags").glob("*.py"))


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return DagBag(str(ROOT / "dags"))


def test_dags_load(bag):
    assert bag.import_errors == {}
    assert bag.captured_warnings == {}
    assert set(bag.dags) == {"flights_ingest", "flights_train", "weather_ingest"}


def test_dag_that_cannot_load_is_seen(tmp_path):
    (tmp_path / "bad.py").write_text("from airflow.sdk import DAG\nfrom leeway.operators.nothing import It\n")
    assert list(DagBag(str(tmp_path)).import_errors) != []


def test_schedules(bag):
    ingest, train = bag.dags["flights_ingest"].schedule, bag.dags["flights_train"].schedule
    assert isinstance(ingest, CronPartitionTimetable)
    assert isinstance(train, AssetOrTimeSchedule)
    assert train.asset_condition.name == "flights_drift"
    assert bag.dags["flights_ingest"].start_date == dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    assert isinstance(bag.dags["weather_ingest"].schedule, CronPartitionTimetable)
    assert {dag.catchup for dag in bag.dags.values()} == {False}


@pytest.mark.parametrize("dag_id", ["flights_ingest", "flights_train", "weather_ingest"])
def test_dag_says_what_it_is_and_whose(bag, dag_id):
    dag = bag.dags[dag_id]
    assert {"leeway", "flights"} <= dag.tags
    assert len(dag.doc_md) > 300
    assert dag.description
    for task in dag.tasks:
        assert task.owner in ("data", "ml")
        assert task.retries > 0
        assert task.retry_exponential_backoff
        assert task.retry_delay < task.max_retry_delay
        assert task.execution_timeout


def test_tasks_follow_one_another(bag):
    def chain(dag_id: str) -> list[str]:
        return [task.task_id for task in bag.dags[dag_id].topological_sort()]

    assert chain("flights_ingest") == ["ingest", "validate"]
    assert chain("flights_train") == ["preprocess", "train", "evaluate", "gate", "promote"]
    assert chain("weather_ingest") == ["publish"]
    assert bag.dags["flights_ingest"].get_task("ingest").outlets == []


@pytest.mark.parametrize(
    ("dag_id", "task_id", "name"), [("flights_ingest", "validate", "flights"), ("weather_ingest", "publish", "weather")]
)
def test_what_is_published_is_an_outlet(bag, dag_id, task_id, name):
    task = bag.dags[dag_id].get_task(task_id)
    assert task.asset == Asset(name=name, uri=f"leeway://lake/{name}")
    assert task.outlets == [task.asset]


@pytest.mark.parametrize("given", [None, "2013-03-01"])
def test_as_of_takes_a_date_or_nothing(bag, given):
    assert bag.dags["flights_train"].params.get_param("as_of").resolve(given) == given


@pytest.mark.parametrize("given", ["March", "2013-13-01", "2013-02-30", "2013-3-1", "", 20130301, True])
def test_as_of_refuses_what_is_no_date(bag, given):
    with pytest.raises(ParamValidationError):
        copy.deepcopy(bag.dags["flights_train"].params.get_param("as_of")).resolve(given)


# Rendering: the context has the keys that Airflow's task runner gives, and no others.

XCOMS = {
    "preprocess": {"workspace": "/srv/workspaces/one"},
    "train": {
        "training_job": "job-1", "training_job_arn": "arn:1", "model": "s3://b/model.tar.gz",
        "record": "s3://b/output.tar.gz", "billable_s": 12, "instance_type": "ml.m5.large",
        "training_s": 40, "cost_usd": 0.0004, "price_usd_h": 0.115, "saving": 0.7, "interruptions": 1,
        "lost_s": 0.5, "capacity_s": 2.0,
    },
    "evaluate": {"version": "3"},
    "gate": {"verdict": "/srv/workspaces/one/data/verdict.json"},
}  # fmt: skip


def context(dag: Any, *, logical: str | None = None, partition: str | None = None, **more: Any) -> dict[str, Any]:
    date = dt.datetime.fromisoformat(logical).replace(tzinfo=dt.UTC) if logical else None
    given = {
        "dag": dag,
        "run_id": "run",
        "params": {"as_of": None, "promote_in_backfill": None} | more.pop("params", {}),
        "partition_key": partition,
        "triggering_asset_events": events(),
        "dag_run": SimpleNamespace(logical_date=date, run_id="run", run_type=DagRunType.SCHEDULED),
        "ti": SimpleNamespace(xcom_pull=lambda task: XCOMS[task]),
        **more,
    }
    return given | ({"logical_date": date, "ds": logical} if logical else {})


def rendered(dag: Any, task_id: str, given: dict[str, Any]) -> Any:
    task = copy.copy(dag.get_task(task_id))
    task.render_template_fields(given)
    return task


def events(*extras: dict[str, Any]) -> TriggeringAssetEventsAccessor:
    """What Airflow gives a run that events of the drift asset started."""
    asset = {"name": "flights_drift", "uri": "leeway://drift/flights", "extra": {}}
    of = dict.fromkeys(("source_task_id", "source_dag_id", "source_run_id", "source_map_index"))
    moment = dt.datetime(2013, 5, 9, tzinfo=dt.UTC)
    told = [
        AssetEventDagRunReferenceResult(asset=asset, extra=extra, source_aliases=[], timestamp=moment, **of)
        for extra in extras
    ]
    return TriggeringAssetEventsAccessor.build(told)


@pytest.mark.parametrize("task_id", ["ingest", "validate"])
def test_partition_of_a_partitioned_run_and_of_a_run_by_hand(bag, task_id):
    dag = bag.dags["flights_ingest"]
    assert rendered(dag, task_id, context(dag, partition="2013-02-08")).partition == "2013-02-08"
    assert rendered(dag, task_id, context(dag, logical="2013-02-09")).partition == "2013-02-09"


@pytest.mark.parametrize("task_id", ["ingest", "validate"])
def test_run_without_any_day_renders_to_what_the_step_refuses(bag, task_id):
    """Not an error of the template engine, which Airflow would try again three times."""
    from pipelines.errors import SpecError
    from pipelines.steps import spec_of

    dag = bag.dags["flights_ingest"]
    spec = rendered(dag, task_id, context(dag)).spec()
    with pytest.raises(SpecError, match="partition"):
        spec_of(task_id).parse(spec, task_id)


@pytest.mark.parametrize(
    ("given", "days"),
    [
        ({"partition": "2013-02"}, ("2013-02-01", "2013-02-28")),
        ({"logical": "2013-12-17"}, ("2013-12-01", "2013-12-31")),
        ({}, ("-01", "")),
    ],
)
def test_days_of_a_month(bag, given, days):
    dag = bag.dags["weather_ingest"]
    task = rendered(dag, "publish", {**context(dag, **given), "month_end": dag.user_defined_macros["month_end"]})
    assert (task.spec()["first"], task.spec()["last"]) == days


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"logical": "2013-03-01"}, "2013-03-01"),
        ({"logical": "2013-03-01", "params": {"as_of": "2013-02-15"}}, "2013-02-15"),
        ({"triggering_asset_events": events({"as_of": "2013-05-07", "reason": "psi"})}, "2013-05-07"),
        ({"triggering_asset_events": events({"as_of": "2013-05-09"}, {"as_of": "2013-05-07"})}, "2013-05-09"),
        (
            {
                "triggering_asset_events": events({"as_of": "2013-05-07"}),
                "params": {"as_of": "2013-04-01"},
            },
            "2013-04-01",
        ),
        ({"triggering_asset_events": events({"reason": "no date"}), "logical": "2013-06-01"}, "2013-06-01"),
    ],
)
def test_moment_of_training_param_then_event_then_logical_date(bag, more, expected):
    dag = bag.dags["flights_train"]
    task = rendered(dag, "preprocess", context(dag, **more))
    assert task.spec() == {
        "targets": ["preprocess"],
        "refresh": ["snapshot"],
        "params": {"snapshot": {"as_of": expected, "missing": "fail"}},
        "workspace": "flights_train.run",
        "commit": "",
        "push": True,
        "wait": False,
    }


def test_no_moment_of_training_is_said_clearly_and_not_tried_again(bag):
    dag = bag.dags["flights_train"]
    with pytest.raises(AirflowFailException, match="trigger it with the param as_of"):
        rendered(dag, "preprocess", context(dag))


@pytest.mark.parametrize("logical", ["2013-03-01", None])
def test_what_follows_the_training_takes_what_it_left(bag, logical):
    dag = bag.dags["flights_train"]
    given = context(dag, logical=logical, params={"as_of": "2013-03-01"})
    assert rendered(dag, "train", given).channels == {
        "train": "/srv/workspaces/one/data/features/train",
        "validation": "/srv/workspaces/one/data/features/validation",
    }
    spec = rendered(dag, "evaluate", given).spec()
    assert spec["features"] == "/srv/workspaces/one/data/features"
    assert (spec["model"], spec["record"]) == ("s3://b/model.tar.gz", "s3://b/output.tar.gz")
    assert spec["lineage"] == {
        "training_job_arn": "arn:1",
        "billable_s": "12",
        "instance_type": "ml.m5.large",
        "dag_run": "flights_train/run",
        "training_s": "40",
        "cost_usd": "0.0004",
        "price_usd_h": "0.115",
        "saving": "0.7",
        "interruptions": "1",
        "lost_s": "0.5",
        "capacity_s": "2.0",
    }
    assert rendered(dag, "gate", given).spec()["version"] == "3"
    assert rendered(dag, "promote", given).spec() == {
        "model_name": "flights",
        "version": "3",
        "verdict": "/srv/workspaces/one/data/verdict.json",
        "backfill": "False",
    }


@pytest.mark.parametrize("kind", list(DagRunType))
def test_gate_and_promotion_know_a_backfill(bag, kind):
    """By the run's type, as the task runner gives it; all other types are none."""
    dag = bag.dags["flights_train"]
    run = SimpleNamespace(logical_date=None, run_id="run", run_type=kind)
    for task_id in ("gate", "promote"):
        told = rendered(dag, task_id, context(dag, dag_run=run)).spec()
        assert told["backfill"] == str(kind is DagRunType.BACKFILL)
        spec_of(task_id).parse(told, task_id)


@pytest.mark.parametrize(
    ("given", "expected"), [(None, {}), (True, {"in_backfill": "True"}), (False, {"in_backfill": "False"})]
)
def test_promotion_in_a_backfill_is_the_params_or_left_to_params_yaml(bag, given, expected):
    dag = bag.dags["flights_train"]
    told = rendered(dag, "promote", context(dag, params={"promote_in_backfill": given})).spec()
    assert {name: value for name, value in told.items() if name == "in_backfill"} == expected


# What a DAG file may be.


def imports(text: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(text)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def foreign(text: str) -> set[str]:
    known = {"airflow", "leeway", *sys.stdlib_module_names}
    return {name for name in imports(text) if name.split(".")[0] not in known}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_dag_file_is_short_and_only_composes(path):
    text = path.read_text()
    assert len(text.splitlines()) < 100
    assert foreign(text) == set()
    assert not re.search(r"/(home|root|tmp|work)/|https?://", text)


def test_foreign_import_is_seen():
    assert foreign("import os\ndef f():\n    from pandas.api import types\n") == {"pandas.api"}
