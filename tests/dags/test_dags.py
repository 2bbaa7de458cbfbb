"""The DAGs of dags/: they load, say what they promise, and render for every kind of run."""

import ast
import copy
import datetime as dt
import itertools
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import Asset, AssetOrTimeSchedule, CronPartitionTimetable, IdentityMapper, PartitionedAssetTimetable
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError
from airflow.sdk.execution_time.comms import AssetEventDagRunReferenceResult
from airflow.sdk.execution_time.context import TriggeringAssetEventsAccessor
from airflow.serialization.serialized_objects import DagSerialization

from pipelines.steps import load_spec_class

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "dags").glob("*.py"))
DAGS = ("flights_ingest", "flights_monitor", "flights_rollback", "flights_score", "flights_train", "weather_ingest")


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return DagBag(str(ROOT / "dags"))


def test_dags_load(bag):
    assert bag.import_errors == {}
    assert bag.captured_warnings == {}
    assert set(bag.dags) == set(DAGS)


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


def test_a_published_day_is_scored_as_its_own_partition(bag):
    """By the very asset that publishing gives an event."""
    schedule = bag.dags["flights_score"].schedule
    assert isinstance(schedule, PartitionedAssetTimetable)
    assert schedule.asset_condition == bag.dags["flights_ingest"].get_task("validate").asset
    assert isinstance(schedule.default_partition_mapper, IdentityMapper)
    assert [name for name in DAGS if bag.dags[name].is_paused_upon_creation] == ["flights_monitor", "flights_score"]


@pytest.mark.parametrize("dag_id", DAGS)
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
    training = ["guard", "preprocess", "train", "evaluate", "gate", "approve", "promote", "record_outcome"]
    assert chain("flights_train") == training
    assert chain("flights_score") == ["score", "outcomes", "profile"]
    assert chain("flights_monitor") == ["drift"]
    assert chain("weather_ingest") == ["publish"]
    assert chain("flights_rollback") == ["rollback"]
    assert bag.dags["flights_ingest"].get_task("ingest").outlets == []


def test_outputs_add_no_arrow_between_tasks_that_do_not_follow_one_another_anyway(bag):
    """Airflow makes a task that takes an output follow the task that gives it."""
    tasks = bag.dags["flights_train"].topological_sort()
    for before, after in itertools.pairwise(tasks):
        assert after.task_id in before.downstream_task_ids
    assert tasks[0].downstream_task_ids == {"preprocess", "record_outcome"}
    profile = bag.dags["flights_score"].get_task("profile")
    assert profile.upstream_task_ids == {"score"}


def test_a_day_that_was_scored_is_profiled_by_the_version_that_scored_it(bag):
    dag = bag.dags["flights_score"]
    spec = rendered(dag, "profile", context(dag, partition="2013-02-08")).build_spec()
    assert (spec["version"], spec["rows"]) == ("2", "/srv/rows.parquet")


def test_a_training_is_guarded_first_and_settled_whatever_failed(bag):
    guard, record_outcome = (bag.dags["flights_train"].get_task(name) for name in ("guard", "record_outcome"))
    assert guard.is_setup and guard.upstream_list == []
    assert record_outcome.is_teardown and "guard" in record_outcome.upstream_task_ids
    assert record_outcome.trigger_rule == "all_done_setup_success"
    assert not record_outcome.on_failure_fail_dagrun


@pytest.mark.parametrize(
    ("dag_id", "task_id", "name"), [("flights_ingest", "validate", "flights"), ("weather_ingest", "publish", "weather")]
)
def test_what_is_published_is_an_outlet(bag, dag_id, task_id, name):
    task = bag.dags[dag_id].get_task(task_id)
    assert task.asset == Asset(name=name, uri=f"x-leeway://lake/{name}")
    assert task.outlets == [task.asset]


def deaf(partitioned: dict[str, bool], producers: dict[str, set[str]], consumers: dict[str, set[str]]) -> set[str]:
    """Assets whose events do not reach who listens: those of partitioned runs start partitioned DAGs only, and others
    others."""
    asked = {(asset, partitioned[one]) for asset, all_of in producers.items() for one in all_of}
    heard = {(asset, partitioned[one]) for asset, all_of in consumers.items() for one in all_of}
    return {asset for asset, _ in asked ^ heard if asset in producers and asset in consumers}


def test_events_reach_the_dags_that_listen(bag):
    """Airflow drops the event of a run with a partition key for a DAG that is not partitioned, without a word."""
    read = {name: DagSerialization.from_dict(DagSerialization.to_dict(bag.dags[name])).timetable for name in DAGS}
    partitioned = {name: read[name].partitioned for name in DAGS}
    producers: dict[str, set[str]] = {}
    consumers: dict[str, set[str]] = {}
    for name in DAGS:
        for task in bag.dags[name].tasks:
            for asset in task.outlets:
                producers.setdefault(asset.name, set()).add(name)
        for key, _ in read[name].asset_condition.iter_assets():
            consumers.setdefault(key.name, set()).add(name)
    assert deaf(partitioned, producers, consumers) == set()
    assert {name: consumers[name] for name in ("flights", "flights_drift")} == {
        "flights": {"flights_score"}, "flights_drift": {"flights_train"},
    }  # fmt: skip
    assert deaf({**partitioned, "flights_monitor": True}, producers, consumers) == {"flights_drift"}


@pytest.mark.parametrize("given", [None, "2013-03-01"])
def test_as_of_takes_a_date_or_nothing(bag, given):
    assert bag.dags["flights_train"].params.get_param("as_of").resolve(given) == given


@pytest.mark.parametrize("given", ["March", "2013-13-01", "2013-02-30", "2013-3-1", "", 20130301, True])
def test_as_of_refuses_what_is_no_date(bag, given):
    with pytest.raises(ParamValidationError):
        copy.deepcopy(bag.dags["flights_train"].params.get_param("as_of")).resolve(given)


# Rendering: the context has the keys that Airflow's task runner gives, and no others.

WINDOW = {"as_of": "2013-03-01", "train_days": 60, "holdout_days": 28, "label_delay_days": 1}
XCOMS = {
    "guard": {"window": WINDOW},
    "score": {"version": "2", "rows": "/srv/rows.parquet"},
    "preprocess": {"workspace": "/srv/workspaces/one"},
    "train": {
        "training_job": "job-1", "training_job_arn": "arn:1", "model": "s3://b/model.tar.gz",
        "record": "s3://b/output.tar.gz", "billable_s": 12, "instance_type": "ml.m5.large",
        "training_s": 40, "cost_usd": 0.0004, "price_usd_h": 0.115, "saving": 0.7, "interruptions": 1,
        "lost_s": 0.5, "capacity_s": 2.0,
    },
    "evaluate": {"version": "3"},
    "gate": {"verdict": "/srv/workspaces/one/data/verdict.json", "version": "3", "asks": True},
}  # fmt: skip


def context(dag: Any, *, logical: str | None = None, partition: str | None = None, **more: Any) -> dict[str, Any]:
    date = dt.datetime.fromisoformat(logical).replace(tzinfo=dt.UTC) if logical else None
    given = {
        "dag": dag,
        "run_id": "run",
        "params": dict.fromkeys(("as_of", "partition", "promote_in_backfill", "retrain_in_backfill"))
        | more.pop("params", {}),
        "partition_key": partition,
        "triggering_asset_events": events(),
        "dag_run": SimpleNamespace(logical_date=date, run_id="run", run_type=DagRunType.SCHEDULED),
        "ti": SimpleNamespace(xcom_pull=lambda task_ids, **_: XCOMS[task_ids]),
        **more,
    }
    return given | ({"logical_date": date, "ds": logical} if logical else {})


def rendered(dag: Any, task_id: str, given: dict[str, Any]) -> Any:
    task = copy.copy(dag.get_task(task_id))
    task.render_template_fields(given)
    return task


def events(*extras: dict[str, Any]) -> TriggeringAssetEventsAccessor:
    """What Airflow gives a run that events of the drift asset started."""
    asset = {"name": "flights_drift", "uri": "x-leeway://drift/flights", "extra": {}}
    of = dict.fromkeys(("source_task_id", "source_dag_id", "source_run_id", "source_map_index"))
    moment = dt.datetime(2013, 5, 9, tzinfo=dt.UTC)
    told = [
        AssetEventDagRunReferenceResult(asset=asset, extra=extra, source_aliases=[], timestamp=moment, **of)
        for extra in extras
    ]
    return TriggeringAssetEventsAccessor.build(told)


OF_A_DAY = [
    *(("flights_ingest", one) for one in ("ingest", "validate")),
    *(("flights_score", one) for one in ("score", "outcomes")),
]
MONITOR = ("flights_monitor", "drift")
"""Of a day, too, but by its date or what a person says: partitions are not its."""


@pytest.mark.parametrize(("dag_id", "task_id"), OF_A_DAY)
def test_partition_of_a_partitioned_run_and_of_a_run_by_hand(bag, dag_id, task_id):
    dag = bag.dags[dag_id]
    assert rendered(dag, task_id, context(dag, partition="2013-02-08")).partition == "2013-02-08"
    assert rendered(dag, task_id, context(dag, logical="2013-02-09")).partition == "2013-02-09"


def test_the_day_of_a_run_of_the_monitor_is_its_date_or_what_is_asked_for(bag):
    dag = bag.dags["flights_monitor"]
    assert rendered(dag, "drift", context(dag, logical="2013-02-09")).partition == "2013-02-09"
    assert rendered(dag, "drift", context(dag, params={"partition": "2013-02-08"})).partition == "2013-02-08"


@pytest.mark.parametrize(("dag_id", "task_id"), [*OF_A_DAY, MONITOR])
def test_run_without_any_day_renders_to_what_the_step_refuses(bag, dag_id, task_id):
    """Not an error of the template engine, which Airflow would try again three times."""
    from pipelines.errors import SpecError
    from pipelines.steps import load_spec_class

    dag = bag.dags[dag_id]
    task = rendered(dag, task_id, context(dag))
    spec = {"partition": task.partition} if task_id == "score" else task.build_spec()
    with pytest.raises(SpecError, match="partition"):
        load_spec_class(task_id).parse(spec, task_id)


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
    assert (task.build_spec()["first"], task.build_spec()["last"]) == days


def test_the_snapshot_has_the_window_that_the_guard_looked_at(bag):
    dag = bag.dags["flights_train"]
    assert rendered(dag, "preprocess", context(dag)).build_spec() == {
        "targets": ["preprocess"],
        "refresh": ["snapshot"],
        "params": {"snapshot": {"missing": "fail", **WINDOW}},
        "workspace": "flights_train.run",
        "commit": "",
        "push": True,
        "wait": False,
    }


NO_REASON = {"reason": "", "worst": []}
LATE, EARLY = (
    {"as_of": "2013-05-09", "reason": "auc 0.61", "worst": ["auc", "dep_hour"]},
    {"as_of": "2013-05-07", "reason": "psi", "worst": "carrier"},
)
DRIFT = {"trigger": "drift", **LATE}


@pytest.mark.parametrize(
    ("kind", "extras", "as_of", "expected"),
    [
        (DagRunType.ASSET_TRIGGERED, [LATE, EARLY], None, DRIFT),
        (DagRunType.ASSET_TRIGGERED, [EARLY, LATE], None, DRIFT),
        (DagRunType.ASSET_TRIGGERED, [{"as_of": "2013-05-09"}], None, DRIFT | NO_REASON),
        (DagRunType.ASSET_TRIGGERED, [{"reason": "no moment"}], None, {"trigger": "drift", **NO_REASON}),
        (DagRunType.MANUAL, [], "2013-05-09", {"trigger": "manual", **NO_REASON}),
        (DagRunType.MANUAL, [LATE], "2013-05-08", {"trigger": "manual", **NO_REASON}),
        (DagRunType.SCHEDULED, [], None, {"trigger": "schedule", **NO_REASON}),
        (DagRunType.BACKFILL, [], None, {"trigger": "backfill", **NO_REASON}),
    ],
)
def test_guard_reads_from_the_run_why_and_as_of_when_it_trains(bag, monkeypatch, kind, extras, as_of, expected):
    """Of Airflow's own events; the step gets the event's reason and columns as they are."""
    dag = bag.dags["flights_train"]
    run = SimpleNamespace(logical_date=dt.datetime(2013, 5, 1, tzinfo=dt.UTC), run_id="run", run_type=kind)
    given = context(dag, dag_run=run, params={"as_of": as_of}, triggering_asset_events=events(*extras))
    guard, specs = rendered(dag, "guard", given), []
    answer = {"alert": False, "reason": ""}
    monkeypatch.setattr(type(guard), "run_step", lambda self, step, spec: specs.append(spec) or answer)
    assert guard.execute(given) == answer
    moment = as_of or expected.get("as_of", "2013-05-01")
    assert specs == [{"dataset": "flights", "model_name": "flights", **expected, "as_of": moment}]
    load_spec_class("guard").parse(specs[0], "guard")


@pytest.mark.parametrize(("gate", "version"), [({"version": "3"}, "3"), (None, "")])
def test_record_outcome_takes_the_version_that_the_gate_judged_if_it_came_so_far(bag, gate, version):
    dag = bag.dags["flights_train"]
    ti = SimpleNamespace(xcom_pull=lambda task_ids, **_: {"gate": gate}[task_ids])
    spec = rendered(dag, "record_outcome", context(dag, ti=ti)).build_spec()
    assert load_spec_class("record_outcome").parse(spec, "record_outcome").version == version


def test_no_moment_of_training_is_said_clearly_and_not_tried_again(bag):
    dag = bag.dags["flights_train"]
    with pytest.raises(AirflowFailException, match="trigger it with the param as_of"):
        rendered(dag, "guard", context(dag)).execute(context(dag))


@pytest.mark.parametrize("logical", ["2013-03-01", None])
def test_what_follows_the_training_takes_what_it_left(bag, logical):
    dag = bag.dags["flights_train"]
    given = context(dag, logical=logical, params={"as_of": "2013-03-01"})
    assert rendered(dag, "train", given).channels == {
        "train": "/srv/workspaces/one/data/features/train",
        "validation": "/srv/workspaces/one/data/features/validation",
    }
    spec = rendered(dag, "evaluate", given).build_spec()
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
    assert spec["training_job"] == "job-1"
    assert rendered(dag, "gate", given).build_spec()["version"] == "3"
    assert rendered(dag, "approve", given).verdict == XCOMS["gate"]
    assert rendered(dag, "promote", given).build_spec() == {
        "model_name": "flights",
        "version": "3",
        "verdict": "/srv/workspaces/one/data/verdict.json",
        "backfill": "False",
    }


@pytest.mark.parametrize("kind", list(DagRunType))
def test_gate_promotion_and_drift_know_a_backfill(bag, kind):
    """By the run's type, as the task runner gives it; all other types are none."""
    run = SimpleNamespace(logical_date=None, run_id="run", run_type=kind)
    for dag_id, task_id in (("flights_train", "gate"), ("flights_train", "promote"), ("flights_monitor", "drift")):
        dag = bag.dags[dag_id]
        told = rendered(dag, task_id, context(dag, dag_run=run, logical="2013-04-01")).build_spec()
        assert told["backfill"] == str(kind is DagRunType.BACKFILL)
        load_spec_class(task_id).parse(told, task_id)


@pytest.mark.parametrize(
    ("given", "expected"), [(None, {}), (True, {"in_backfill": "True"}), (False, {"in_backfill": "False"})]
)
@pytest.mark.parametrize(
    ("dag_id", "task_id", "param"),
    [("flights_train", "promote", "promote_in_backfill"), ("flights_monitor", "drift", "retrain_in_backfill")],
)
def test_what_a_backfill_may_is_the_params_or_left_to_params_yaml(bag, given, expected, dag_id, task_id, param):
    dag = bag.dags[dag_id]
    told = rendered(dag, task_id, context(dag, params={param: given})).build_spec()
    assert {name: value for name, value in told.items() if name == "in_backfill"} == expected


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, {"to": "", "force": "False"}),
        ({"to": "3", "force": True, "model": "other"}, {"to": "3", "force": "True", "model_name": "other"}),
    ],
)
def test_rollback_takes_its_params(bag, params, expected):
    dag = bag.dags["flights_rollback"]
    given = {"model": "flights", "to": None, "force": False, "why": "late {{ on }} Mondays"} | params
    told = rendered(dag, "rollback", context(dag, params=given)).build_spec()
    assert told == {"model_name": "flights", "why": "late {{ on }} Mondays"} | expected
    load_spec_class("rollback").parse(told, "rollback")


@pytest.mark.parametrize("given", [None, "", 3])
def test_rollback_without_a_reason_is_not_started(bag, given):
    with pytest.raises(ParamValidationError):
        copy.deepcopy(bag.dags["flights_rollback"].params.get_param("why")).resolve(given)


def test_drift_is_told_to_the_asset_that_starts_a_training(bag):
    drift = bag.dags["flights_monitor"].get_task("drift")
    assert drift.outlets == [drift.asset] == [bag.dags["flights_train"].schedule.asset_condition]


def test_rollback_has_no_schedule(bag):
    assert bag.dags["flights_rollback"].schedule is None


@pytest.mark.parametrize(
    ("user", "expected"), [("alice", "alice"), (None, "flights_train/run"), ("", "flights_train/run")]
)
def test_who_asks_is_the_user_else_the_run(bag, user, expected):
    dag = bag.dags["flights_train"]
    run = SimpleNamespace(logical_date=None, run_id="run", run_type=DagRunType.MANUAL, triggering_user_name=user)
    told = rendered(dag, "promote", context(dag, dag_run=run)).who
    assert told == {"LEEWAY_ACTOR": expected, "LEEWAY_RUN": "flights_train/run"}


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
