"""Test the DAGs of dags/: they load, have the documented structure, and render for every kind of run."""

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
from airflow.sdk.execution_time import macros
from airflow.sdk.execution_time.comms import AssetEventDagRunReferenceResult
from airflow.sdk.execution_time.context import TriggeringAssetEventsAccessor
from airflow.serialization.serialized_objects import DagSerialization

from pipelines.idle.names import KINDS
from pipelines.steps import load_spec_class
from pipelines.steps.record_outcome import RecordOutcomeSpec
from pipelines.steps.skew import SkewSpec
from pipelines.steps.sweep_idle import SweepIdleSpec

ROOT = Path(__file__).parents[2]
NAMES = (
    *("endpoint_costs.py", "endpoint_sweep.py", "flight_delay.py", "flight_status.py", "flights.py"),
    *("idle_sweep.py", "lake_check.py", "page_documents.py", "showback.py", "weather_ingest.py"),
)
"""The files that are shipped. A checkout may have more: `new NAME` writes dags/NAME.py."""
FILES = [ROOT / "dags" / name for name in NAMES]
DAGS = (
    *("endpoint_costs", "endpoint_sweep"),
    *("flight_delay_monitor", "flight_delay_reset_breaker", "flight_delay_rollback", "flight_delay_score"),
    "flight_delay_train",
    *("flight_status_monitor", "flight_status_reset_breaker", "flight_status_rollback", "flight_status_score"),
    "flight_status_train",
    *("flights_deploy", "flights_ingest", "flights_materialize", "flights_monitor", "flights_reset_breaker"),
    *("flights_rollback", "flights_withdraw", "flights_score", "flights_serving_monitor", "flights_train"),
    "flights_tune",
    *("idle_sweep", "lake_check", "page_documents", "showback", "weather_ingest"),
)


def list_dags(bag: DagBag) -> set[str]:
    """Return the ids of the DAGs that are in a shipped file."""
    return {dag_id for dag_id, dag in bag.dags.items() if Path(dag.fileloc).name in NAMES}


@pytest.fixture(scope="module")
def bag() -> DagBag:
    """Return the DAGs of dags/."""
    return DagBag(str(ROOT / "dags"))


def test_dags_load_without_errors(bag):
    assert bag.import_errors == {}
    assert bag.captured_warnings == {}
    assert list_dags(bag) == set(DAGS)


def test_a_dag_of_a_user_is_none_of_the_shipped_ones_and_an_unlisted_dag_is_noticed(tmp_path):
    for name, dag_id in (("parcels.py", "parcels_train"), (NAMES[0], "unlisted")):
        (tmp_path / name).write_text(f"from airflow.sdk import DAG\ndag = DAG({dag_id!r})\n")
    bag = DagBag(str(tmp_path))
    assert (set(bag.dags), list_dags(bag)) == ({"parcels_train", "unlisted"}, {"unlisted"})


def test_import_error_of_a_dag_is_detected(tmp_path):
    (tmp_path / "bad.py").write_text("from airflow.sdk import DAG\nfrom leeway.operators.nothing import Operator\n")
    assert list(DagBag(str(tmp_path)).import_errors) != []


def test_dags_have_their_schedules(bag):
    ingest, train = bag.dags["flights_ingest"].schedule, bag.dags["flights_train"].schedule
    assert isinstance(ingest, CronPartitionTimetable)
    assert isinstance(train, AssetOrTimeSchedule)
    assert isinstance(train.asset_condition, Asset) and train.asset_condition.name == "flights_drift"
    assert bag.dags["flights_ingest"].start_date == dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    assert isinstance(bag.dags["weather_ingest"].schedule, CronPartitionTimetable)
    assert {bag.dags[name].catchup for name in DAGS} == {False}


def test_scoring_runs_for_the_partition_that_was_published(bag):
    """The schedule has the asset whose event the publishing task emits."""
    for name in ("flights_score", "flights_serving_monitor", "flights_materialize"):
        schedule = bag.dags[name].schedule
        assert isinstance(schedule, PartitionedAssetTimetable)
        assert schedule.asset_condition == bag.dags["flights_ingest"].get_task("validate").asset
        assert isinstance(schedule.default_partition_mapper, IdentityMapper)
    paused_dags = [name for name in DAGS if bag.dags[name].is_paused_upon_creation]
    assert paused_dags == [
        *("endpoint_costs", "endpoint_sweep"),
        *("flight_delay_monitor", "flight_delay_score", "flight_status_monitor", "flight_status_score"),
        *("flights_deploy", "flights_materialize", "flights_monitor", "flights_score", "flights_serving_monitor"),
        *("idle_sweep", "lake_check", "page_documents", "showback"),
    ]


@pytest.mark.parametrize("dag_id", DAGS)
def test_dag_has_documentation_and_each_task_an_owner_and_retries(bag, dag_id):
    dag = bag.dags[dag_id]
    assert "leeway" in dag.tags and dag.tags & {"flights", "flight_delay", "flight_status"}
    assert len(dag.doc_md) > 300
    assert dag.description
    for task in dag.tasks:
        assert task.owner in ("data", "ml")
        assert task.retries > 0
        assert task.retry_exponential_backoff
        assert task.retry_delay < task.max_retry_delay
        assert task.execution_timeout


def test_tasks_have_their_order(bag):
    def list_tasks(dag_id: str) -> list[str]:
        return [task.task_id for task in bag.dags[dag_id].topological_sort()]

    assert list_tasks("flights_ingest") == ["ingest", "validate"]
    training = ["guard", "preprocess", "train", "evaluate", "gate", "approve", "promote", "record_outcome"]
    assert list_tasks("flights_train") == training
    assert list_tasks("flights_tune") == [*training[:2], "tune", *training[2:]]
    assert list_tasks("flights_score") == ["score", "outcomes", "profile"]
    assert list_tasks("flights_monitor") == ["drift"]
    assert list_tasks("weather_ingest") == ["publish"]
    assert list_tasks("flights_rollback") == ["rollback"]
    assert list_tasks("lake_check") == ["check"]
    assert list_tasks("endpoint_costs") == ["meter"]
    assert list_tasks("page_documents") == ["write"]
    assert list_tasks("endpoint_sweep") == list_tasks("idle_sweep") == ["sweep"]
    assert list_tasks("showback") == ["showback"]
    assert list_tasks("flights_deploy") == ["shadow", "deploy"]
    assert list_tasks("flights_serving_monitor") == ["versions", "collect", "skew", "outcomes"]
    assert list_tasks("flights_materialize") == ["materialize"]
    assert bag.dags["flights_ingest"].get_task("ingest").outlets == []


def test_sweep_of_endpoints_deletes_nothing_unless_its_param_says_so(bag):
    dag = bag.dags["endpoint_sweep"]
    sweep = dag.get_task("sweep")
    assert (dag.params["delete"], dag.params["hours"]) == (False, 24)
    assert (sweep.hours, sweep.delete) == ("{{ params.hours }}", "{{ params.delete }}")


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, {}),
        ({"stop": ["notebook", "app"]}, {"stop": ["notebook", "app"]}),
        (
            {"kinds": ["endpoint"], "stop": ["endpoint"], "idle_minutes": 90, "cpu_percent": 2.5},
            {"kinds": ["endpoint"], "stop": ["endpoint"], "idle_minutes": 90, "cpu_percent": 2.5},
        ),
    ],
)
def test_sweep_of_idle_things_stops_nothing_unless_its_param_has_kinds(bag, params, expected):
    dag = bag.dags["idle_sweep"]
    values = {name: copy.deepcopy(dag.params.get_param(name)).resolve(value) for name, value in params.items()}
    context = build_context(dag, params={**dag.params.dump(), **values})
    spec = SweepIdleSpec.parse(render(dag, "sweep", context).build_spec(), "sweep_idle")
    default_spec = SweepIdleSpec()
    assert (default_spec.stop, default_spec.kinds) == ([], list(KINDS))
    assert spec == default_spec.model_copy(update=expected)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kinds", []),
        ("kinds", ["bucket"]),
        ("kinds", "notebook"),
        ("stop", ["notebook", "notebook"]),
        ("stop", ["all"]),
        ("stop", None),
        ("idle_minutes", 0),
        ("idle_minutes", 86_401),
        ("cpu_percent", 0),
        ("cpu_percent", 101),
    ],
)
def test_sweep_of_idle_things_refuses_wrong_params(bag, name, value):
    with pytest.raises(ParamValidationError):
        copy.deepcopy(bag.dags["idle_sweep"].params.get_param(name)).resolve(value)


def test_outputs_add_no_further_edges(bag):
    """Airflow adds an edge from a task to each task that uses its output."""
    tasks = bag.dags["flights_train"].topological_sort()
    for task, next_task in itertools.pairwise(tasks):
        assert next_task.task_id in task.downstream_task_ids
    assert tasks[0].downstream_task_ids == {"preprocess", "record_outcome"}
    promote = bag.dags["flights_train"].get_task("promote")
    assert promote.trigger_rule == "none_failed_min_one_success", "`approve` is skipped if nobody has to approve"
    assert promote.upstream_task_ids == {"evaluate", "gate", "approve"}
    profile = bag.dags["flights_score"].get_task("profile")
    assert profile.upstream_task_ids == {"score"}
    tasks = [bag.dags["flights_serving_monitor"].get_task(name) for name in ("outcomes", "skew")]
    assert [task.upstream_task_ids for task in tasks] == [{"collect"}] * 2


def test_profile_uses_the_version_that_scored_the_day(bag):
    dag = bag.dags["flights_score"]
    spec = render(dag, "profile", build_context(dag, partition="2013-02-08")).build_spec()
    assert (spec["version"], spec["rows"]) == ("2", "/srv/rows.parquet")


def test_skew_compares_the_rows_that_were_collected_and_the_params_are_optional(bag, monkeypatch):
    monkeypatch.setenv("LEEWAY_BUCKET", "leeway")
    dag = bag.dags["flights_serving_monitor"]
    spec = render(dag, "skew", build_context(dag, partition="2013-02-08")).build_spec()
    assert {name: spec[name] for name in XCOMS["collect"]} == XCOMS["collect"]
    assert SkewSpec.parse(spec, "skew").requests is None
    params = {"version": "7", "first_day": "2013-02-01", "last_day": "2013-02-09"}
    for task_id, version in (("versions", {}), ("collect", {"version": "3"})):
        spec = render(dag, task_id, build_context(dag, partition="2013-02-08")).build_spec()
        assert set(spec) - {"captured"} == {"dataset", "model", "partition", *version}
        spec = render(dag, task_id, build_context(dag, partition="2013-02-08", params=params)).build_spec()
        assert {name: spec[name] for name in params} == {**params, **version}
        load_spec_class(dag.get_task(task_id).step).parse(spec, task_id)


def test_guard_is_the_setup_and_record_outcome_the_teardown_of_a_training(bag):
    guard, record_outcome = (bag.dags["flights_train"].get_task(name) for name in ("guard", "record_outcome"))
    assert guard.is_setup and guard.upstream_list == []
    assert record_outcome.is_teardown and "guard" in record_outcome.upstream_task_ids
    assert record_outcome.trigger_rule == "all_done_setup_success"
    assert not record_outcome.on_failure_fail_dagrun


@pytest.mark.parametrize(
    ("dag_id", "task_id", "name"), [("flights_ingest", "validate", "flights"), ("weather_ingest", "publish", "weather")]
)
def test_published_table_is_an_outlet(bag, dag_id, task_id, name):
    task = bag.dags[dag_id].get_task(task_id)
    assert task.asset == Asset(name=name, uri=f"x-leeway://lake/{name}")
    assert task.outlets == [task.asset]


def find_unreceived(
    partitioned: dict[str, bool], producers: dict[str, set[str]], consumers: dict[str, set[str]]
) -> set[str]:
    """Return the assets whose events do not start their consumers.

    Events of partitioned runs start only partitioned DAGs. All other events start only DAGs that are not partitioned.
    """
    emitted = {(asset, partitioned[dag_id]) for asset, dag_ids in producers.items() for dag_id in dag_ids}
    received = {(asset, partitioned[dag_id]) for asset, dag_ids in consumers.items() for dag_id in dag_ids}
    return {asset for asset, _ in emitted ^ received if asset in producers and asset in consumers}


def test_events_reach_the_dags_that_consume_them(bag):
    """Airflow silently drops an event if its run has a partition key and the consuming DAG is not partitioned."""
    timetables = {name: DagSerialization.from_dict(DagSerialization.to_dict(bag.dags[name])).timetable for name in DAGS}
    partitioned = {name: timetables[name].partitioned for name in DAGS}
    producers: dict[str, set[str]] = {}
    consumers: dict[str, set[str]] = {}
    for name in DAGS:
        for task in bag.dags[name].tasks:
            for asset in task.outlets:
                producers.setdefault(asset.name, set()).add(name)
        for key, _ in timetables[name].asset_condition.iter_assets():
            consumers.setdefault(key.name, set()).add(name)
    assert find_unreceived(partitioned, producers, consumers) == set()
    assert {name: consumers[name] for name in ("flights", "flights_drift")} == {
        "flights": {
            *("flights_score", "flight_delay_score", "flight_status_score"),
            *("flights_serving_monitor", "flights_materialize"),
        },
        "flights_drift": {"flights_train"},
    }
    assert find_unreceived({**partitioned, "flights_monitor": True}, producers, consumers) == {"flights_drift"}


@pytest.mark.parametrize("value", [None, "2013-03-01"])
def test_as_of_accepts_a_date_or_none(bag, value):
    assert bag.dags["flights_train"].params.get_param("as_of").resolve(value) == value


@pytest.mark.parametrize("value", ["March", "2013-13-01", "2013-02-30", "2013-3-1", "", 20130301, True])
def test_as_of_refuses_a_value_that_is_no_date(bag, value):
    with pytest.raises(ParamValidationError):
        copy.deepcopy(bag.dags["flights_train"].params.get_param("as_of")).resolve(value)


# Rendering. The context has only the keys that Airflow's task runner sets.

WINDOW = {"as_of": "2013-03-01", "train_days": 60, "holdout_days": 28, "label_delay_days": 1}
XCOMS: dict[str, Any] = {
    "guard": {"window": WINDOW},
    "score": {"version": "2", "rows": "/srv/rows.parquet"},
    "versions": ["3"],
    "collect": {"version": "3", "rows": "/srv/captured.parquet", "endpoint": "flights"},
    "preprocess": {"workspace": "/srv/workspaces/one"},
    "train": {
        "training_job": "job-1", "training_job_arn": "arn:1", "model": "s3://b/model.tar.gz",
        "record": "s3://b/output.tar.gz", "billable_s": 12, "instance_type": "ml.m5.large",
        "training_s": 40, "cost_usd": 0.0004, "price_usd_h": 0.115, "saving": 0.7, "interruptions": 1,
        "lost_s": 0.5, "capacity_s": 2.0,
    },
    "evaluate": {"version": "3"},
    "shadow": {"version": "7", "outcome": "skipped"},
    "gate": {"verdict": "/srv/workspaces/one/data/verdict.json", "version": "3", "needs_approval": True},
}  # fmt: skip


def build_context(
    dag: Any, *, logical: str | None = None, partition: str | None = None, **fields: Any
) -> dict[str, Any]:
    """Return the context of a run with a logical date, a partition key or neither."""
    date = dt.datetime.fromisoformat(logical).replace(tzinfo=dt.UTC) if logical else None
    values = {
        "dag": dag,
        "run_id": "run",
        "params": dict.fromkeys(("as_of", "partition", "promote_in_backfill", "retrain_in_backfill", "allow_shrink"))
        | dict.fromkeys(("version", "first_day", "last_day"))
        | fields.pop("params", {}),
        "partition_key": partition,
        "triggering_asset_events": build_events(),
        "dag_run": SimpleNamespace(logical_date=date, run_id="run", run_type=fields.pop("run_type", DagRunType.MANUAL)),
        "macros": macros,
        "ti": SimpleNamespace(
            xcom_pull=lambda task_ids, **_: XCOMS[task_ids],
            map_index=0,
            get_relevant_upstream_map_indexes=lambda **_: None,
        ),
        **fields,
    }
    return values | ({"logical_date": date, "ds": logical} if logical else {})


def render(dag: Any, task_id: str, context: dict[str, Any]) -> Any:
    """Return a copy of a task with its templates rendered."""
    task = copy.copy(dag.get_task(task_id))
    task.render_template_fields(context)
    return task


def build_events(*extras: dict[str, Any]) -> TriggeringAssetEventsAccessor:
    """Return the asset events of a run that the drift asset started."""
    asset = {"name": "flights_drift", "uri": "x-leeway://drift/flights", "extra": {}}
    source = dict.fromkeys(("source_task_id", "source_dag_id", "source_run_id", "source_map_index"))
    moment = dt.datetime(2013, 5, 9, tzinfo=dt.UTC)
    events = [
        AssetEventDagRunReferenceResult(asset=asset, extra=extra, source_aliases=[], timestamp=moment, **source)
        for extra in extras
    ]
    return TriggeringAssetEventsAccessor.build(events)


DAILY_TASKS = [
    *(("flights_ingest", task_id) for task_id in ("ingest", "validate")),
    *(("flights_score", task_id) for task_id in ("score", "outcomes")),
    *(("flights_serving_monitor", task_id) for task_id in ("versions", "collect", "outcomes", "skew")),
    # Not `materialize`: without a day, it writes the newest ones.
]
MONITOR = ("flights_monitor", "drift")
"""The task of the monitor has a day, too, but its runs have no partition key."""


@pytest.mark.parametrize(("dag_id", "task_id"), [*DAILY_TASKS, ("flights_materialize", "materialize")])
def test_partition_is_the_partition_key_or_the_logical_date(bag, dag_id, task_id):
    dag = bag.dags[dag_id]
    assert render(dag, task_id, build_context(dag, partition="2013-02-08")).partition == "2013-02-08"
    assert render(dag, task_id, build_context(dag, logical="2013-02-09")).partition == "2013-02-09"


def test_monitor_takes_its_day_from_the_logical_date_or_the_param(bag):
    dag = bag.dags["flights_monitor"]
    for run_type, day in (
        (DagRunType.MANUAL, "2013-02-09"),
        (DagRunType.BACKFILL, "2013-02-09"),
        (DagRunType.SCHEDULED, "2013-02-08"),
    ):
        assert render(dag, "drift", build_context(dag, logical="2013-02-09", run_type=run_type)).partition == day
    assert render(dag, "drift", build_context(dag, params={"partition": "2013-02-08"})).partition == "2013-02-08"


@pytest.mark.parametrize(("dag_id", "task_id"), [*DAILY_TASKS, MONITOR])
def test_step_refuses_a_run_without_a_day(bag, monkeypatch, dag_id, task_id):
    """The step refuses it without a retry. An error of the template engine would be retried three times."""
    monkeypatch.setenv("LEEWAY_BUCKET", "leeway")
    from pipelines.errors import SpecError
    from pipelines.steps import load_spec_class

    dag = bag.dags[dag_id]
    task = render(dag, task_id, build_context(dag))
    spec = {"partition": task.partition} if task_id == "score" else task.build_spec()
    with pytest.raises(SpecError, match="partition"):
        load_spec_class("list_versions" if task_id == "versions" else task_id).parse(spec, task_id)


@pytest.mark.parametrize(
    ("fields", "days"),
    [
        ({"partition": "2013-02"}, ("2013-02-01", "2013-02-28")),
        ({"logical": "2013-12-17"}, ("2013-12-01", "2013-12-31")),
        ({}, ("-01", "")),
    ],
)
def test_weather_of_a_month_has_its_first_and_last_day(bag, fields, days):
    dag = bag.dags["weather_ingest"]
    task = render(
        dag, "publish", {**build_context(dag, **fields), "get_last_day": dag.user_defined_macros["get_last_day"]}
    )
    assert (task.build_spec()["first"], task.build_spec()["last"]) == days


def test_snapshot_has_the_window_that_the_guard_checked(bag):
    dag = bag.dags["flights_train"]
    assert render(dag, "preprocess", build_context(dag)).build_spec() == {
        "targets": ["preprocess"],
        "refresh": ["snapshot"],
        "params": {"snapshot": {"missing": "fail", **WINDOW}},
        "model": "flights",
        "workspace": "flights_train.run",
        "commit": "",
        "bundle_version": "",
        "push": True,
        "wait": False,
    }


NO_REASON = {"reason": "", "drifted_columns": []}
LATE, EARLY = (
    {"as_of": "2013-05-09", "reason": "auc 0.61", "drifted_columns": ["auc", "dep_hour"]},
    {"as_of": "2013-05-07", "reason": "psi", "drifted_columns": "carrier"},
)
DRIFT = {"trigger": "drift", **LATE}


@pytest.mark.parametrize(
    ("run_type", "extras", "as_of", "expected"),
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
def test_guard_takes_trigger_reason_and_as_of_from_the_run(bag, monkeypatch, run_type, extras, as_of, expected):
    """The events are Airflow's own; the step gets the reason and the columns of the newest event unchanged."""
    dag = bag.dags["flights_train"]
    run = SimpleNamespace(logical_date=dt.datetime(2013, 5, 1, tzinfo=dt.UTC), run_id="run", run_type=run_type)
    context = build_context(dag, dag_run=run, params={"as_of": as_of}, triggering_asset_events=build_events(*extras))
    guard, specs = render(dag, "guard", context), []
    result = {"alert": False, "reason": ""}
    monkeypatch.setattr(type(guard), "run_step", lambda self, step, spec: specs.append(spec) or result)
    assert guard.execute(context) == result
    trained_as_of = as_of or expected.get("as_of", "2013-05-01")
    assert specs == [{"dataset": "flights", "model": "flights", **expected, "as_of": trained_as_of}]
    load_spec_class("guard").parse(specs[0], "guard")


@pytest.mark.parametrize(("gate", "version"), [({"version": "3"}, "3"), (None, "")])
def test_record_outcome_gets_the_version_of_the_gate_or_none(bag, gate, version):
    dag = bag.dags["flights_train"]
    ti = SimpleNamespace(xcom_pull=lambda task_ids, **_: {"gate": gate}[task_ids])
    spec = render(dag, "record_outcome", build_context(dag, ti=ti)).build_spec()
    assert RecordOutcomeSpec.parse(spec, "record_outcome").version == version


def test_guard_without_as_of_fails_without_a_retry(bag):
    dag = bag.dags["flights_train"]
    with pytest.raises(AirflowFailException, match="trigger the DAG with the param as_of"):
        render(dag, "guard", build_context(dag)).execute(build_context(dag))


@pytest.mark.parametrize("logical", ["2013-03-01", None])
def test_tasks_after_the_training_get_its_outputs(bag, logical):
    dag = bag.dags["flights_train"]
    context = build_context(dag, logical=logical, params={"as_of": "2013-03-01"})
    train = render(dag, "train", context)
    assert train.code == "/srv/workspaces/one", "the script is of the commit of the features"
    assert train.channels == {
        "train": "/srv/workspaces/one/data/features/train",
        "validation": "/srv/workspaces/one/data/features/validation",
    }
    spec = render(dag, "evaluate", context).build_spec()
    assert spec["features"] == "/srv/workspaces/one/data/features"
    assert (spec["model"], spec["trained_model"], spec["record"]) == (
        "flights",
        "s3://b/model.tar.gz",
        "s3://b/output.tar.gz",
    )
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
    assert render(dag, "gate", context).build_spec()["version"] == "3"
    assert render(dag, "approve", context).verdict == XCOMS["gate"]
    assert render(dag, "promote", context).build_spec() == {
        "model": "flights",
        "version": "3",
        "verdict": "/srv/workspaces/one/data/verdict.json",
        "backfill": "False",
    }


@pytest.mark.parametrize("run_type", list(DagRunType))
def test_gate_promote_and_drift_get_whether_the_run_is_a_backfill(bag, run_type):
    """Only the run type `backfill` is a backfill."""
    run = SimpleNamespace(logical_date=None, run_id="run", run_type=run_type)
    for dag_id, task_id in (("flights_train", "gate"), ("flights_train", "promote"), ("flights_monitor", "drift")):
        dag = bag.dags[dag_id]
        spec = render(dag, task_id, build_context(dag, dag_run=run, logical="2013-04-01")).build_spec()
        assert spec["backfill"] == str(run_type is DagRunType.BACKFILL)
        load_spec_class(task_id).parse(spec, task_id)


@pytest.mark.parametrize(("value", "expected"), [(None, []), (True, ["True"]), (False, ["False"])])
@pytest.mark.parametrize(
    ("dag_id", "task_id", "param"),
    [("flights_train", "promote", "promote_in_backfill"), ("flights_monitor", "drift", "retrain_in_backfill")],
)
def test_param_overrides_what_params_yaml_allows_a_backfill(bag, value, expected, dag_id, task_id, param):
    dag = bag.dags[dag_id]
    spec = render(dag, task_id, build_context(dag, params={param: value})).build_spec()
    assert [setting for name, setting in spec.items() if name == param] == expected


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, {"to": "", "champion": "", "force": "False"}),
        ({"to": "3", "champion": "4", "force": True}, {"to": "3", "champion": "4", "force": "True"}),
    ],
)
def test_rollback_gets_its_params(bag, params, expected):
    dag = bag.dags["flights_rollback"]
    values = {"to": None, "champion": None, "force": False, "why": "late {{ on }} Mondays"} | params
    spec = render(dag, "rollback", build_context(dag, params=values)).build_spec()
    assert spec == {"model": "flights", "why": "late {{ on }} Mondays"} | expected
    load_spec_class("rollback").parse(spec, "rollback")


@pytest.mark.parametrize("value", [None, "", 3])
@pytest.mark.parametrize("dag_id", ["flights_rollback", "flights_reset_breaker", "flights_withdraw"])
def test_a_run_by_a_person_needs_a_reason(bag, dag_id, value):
    with pytest.raises(ParamValidationError):
        copy.deepcopy(bag.dags[dag_id].params.get_param("why")).resolve(value)


def test_withdrawal_gets_its_params(bag):
    dag = bag.dags["flights_withdraw"]
    params = {"partition": "2013-01-02", "why": "the source was truncated"}
    spec = render(dag, "withdraw", build_context(dag, params=params)).build_spec()
    assert spec == {"dataset": "flights", **params}
    load_spec_class("withdraw").parse(spec, "withdraw")


def test_reset_of_the_breaker_gets_its_reason(bag):
    dag = bag.dags["flights_reset_breaker"]
    spec = render(dag, "reset_breaker", build_context(dag, params={"why": "the label was late"})).build_spec()
    assert spec == {"model": "flights", "why": "the label was late"}
    load_spec_class("reset_breaker").parse(spec, "reset_breaker")


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, {"repair": False, "content": True, "older": True}),
        (
            {"repair": True, "backup": "/backups/monday.tar", "content": False, "older": False},
            {"repair": True, "backup": Path("/backups/monday.tar"), "content": False, "older": False},
        ),
    ],
)
def test_lake_check_gets_its_params(bag, params, expected):
    dag = bag.dags["lake_check"]
    values = {"repair": False, "backup": None, "content": True, "older": True} | params
    spec = render(dag, "check", build_context(dag, params=values)).build_spec()
    assert load_spec_class("check_lake").parse(spec, "check_lake").model_dump() == {"backup": None} | expected


def test_outlet_of_drift_is_the_asset_that_starts_a_training(bag):
    drift = bag.dags["flights_monitor"].get_task("drift")
    assert drift.outlets == [drift.asset] == [bag.dags["flights_train"].schedule.asset_condition]


def test_change_of_the_champion_starts_its_deployment(bag):
    deploy = bag.dags["flights_deploy"]
    (asset,) = deploy.schedule
    (watcher,) = asset.watchers
    assert watcher.trigger.serialize()[1] == {"model": "flights", "check_interval_s": 10.0}
    emitting_tasks = [task for dag in bag.dags.values() for task in dag.tasks if asset in task.outlets]
    assert not emitting_tasks, "a task that emits the event, too, would start two runs for a change"
    assert deploy.max_active_runs == 1
    assert "flight_delay_deploy" not in bag.dags, "a model has the DAG only on request"


@pytest.mark.parametrize(("version", "expected"), [(None, ""), ("3", "3")])
def test_deployment_gets_the_version_of_the_shadow_task_although_that_was_skipped(bag, version, expected):
    dag = bag.dags["flights_deploy"]
    params = {"version": version, "serving": {"wait_s": 5}}
    task = render(dag, "shadow", build_context(dag, params=params))
    assert (task.model, task.version, task.serving) == ("flights", expected, '{"wait_s": 5}')
    task = render(dag, "deploy", build_context(dag, params=params))
    assert (task.model, task.version, task.trigger_rule) == ("flights", "7", "none_failed")
    assert task.serving == '{"wait_s": 5}'


@pytest.mark.parametrize("dag_id", ["flights_rollback", "flights_reset_breaker", "flights_withdraw"])
def test_only_a_person_starts_it(bag, dag_id):
    assert bag.dags[dag_id].schedule is None


@pytest.mark.parametrize(
    ("user", "expected"), [("alice", "alice"), (None, "flights_train/run"), ("", "flights_train/run")]
)
def test_actor_is_the_user_or_the_run(bag, user, expected):
    dag = bag.dags["flights_train"]
    run = SimpleNamespace(logical_date=None, run_id="run", run_type=DagRunType.MANUAL, triggering_user_name=user)
    actor_variables = render(dag, "promote", build_context(dag, dag_run=run)).actor_variables
    assert actor_variables == {"LEEWAY_ACTOR": expected, "LEEWAY_RUN": "flights_train/run"}


# The content of DAG files.


def list_imports(text: str) -> set[str]:
    """Return the modules that Python code imports."""
    nodes = list(ast.walk(ast.parse(text)))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return modules | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def list_foreign_imports(text: str) -> set[str]:
    """Return the imports that are not of Airflow, Leeway or the standard library."""
    packages = {"airflow", "leeway", *sys.stdlib_module_names}
    return {name for name in list_imports(text) if name.split(".")[0] not in packages}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_dag_file_is_short_and_only_composes(path):
    text = path.read_text()
    assert len(text.splitlines()) < 100
    assert list_foreign_imports(text) == set()
    assert not re.search(r"/(home|root|tmp|work)/|https?://", text)


def test_foreign_import_is_detected():
    assert list_foreign_imports("import os\ndef f():\n    from pandas.api import types\n") == {"pandas.api"}
