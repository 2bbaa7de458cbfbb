"""Test the DAGs that one call creates for a model."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pendulum
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.timetables.base import TimeRestriction
from airflow.timetables.trigger import CronPartitionTimetable


def create_timetable(schedule: Any) -> CronPartitionTimetable:
    """Create the scheduler's timetable from that of a DAG's file."""
    from airflow.serialization.decoders import decode_timetable
    from airflow.serialization.encoders import encode_timetable

    return decode_timetable(encode_timetable(schedule))


START = """
import datetime as dt
from leeway.lifecycle import create_lifecycle_dags
start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
"""
KINDS = ("train", "score", "monitor", "rollback", "reset_breaker")


@pytest.fixture
def load_dags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> Callable[..., DagBag]:
    """Return the function that loads a file of DAGs in a project with the models `late` and `delay`."""
    for model, text in {
        "late": "snapshot: {dataset: trains}\n",
        "delay": "snapshot: {dataset: trains}\n",
        "new": "",
    }.items():
        (tmp_path / "models" / model).mkdir(parents=True)
        (tmp_path / "models" / model / "params.yaml").write_text(text)
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()

    def load(*calls: str) -> DagBag:
        (tmp_path / "dags").mkdir()
        # Airflow skips files in which the word airflow does not occur.
        (tmp_path / "dags" / "all.py").write_text(f"# for airflow\n{START}" + "\n".join(calls))
        return DagBag(str(tmp_path / "dags"))

    return load


def test_two_models_of_a_dataset_share_the_dag_of_its_days(load_dags: Callable[..., DagBag]) -> None:
    bag: Any = load_dags(
        'create_lifecycle_dags(model="late", start=start, max_run_s=60)',
        'create_lifecycle_dags(model="delay", start=start, rows_from="trains", train_schedule="0 0 * * 1")',
    )
    assert bag.import_errors == {}
    assert set(bag.dags) == {
        "trains_ingest",
        "trains_withdraw",
        *(f"{model}_{kind}" for model in ("late", "delay") for kind in KINDS),
    }
    train = bag.dags["late_train"].get_task("train")
    assert (train.model, train.max_run_s, train.max_wait_s) == ("late", 60, 7_200)
    for model in ("late", "delay"):
        names = {getattr(task, "model", model) for kind in KINDS for task in bag.dags[f"{model}_{kind}"].tasks}
        assert names == {model}
        assert (
            bag.dags[f"{model}_monitor"].get_task("drift").asset == bag.dags[f"{model}_train"].schedule.asset_condition
        )
        assert bag.dags[f"{model}_score"].schedule.asset_condition.name == "trains"


def test_a_tuning_shares_the_arguments_of_the_training_that_fit_trials(load_dags: Callable[..., DagBag]) -> None:
    bag: Any = load_dags(
        'create_lifecycle_dags(model="late", start=start, tune=True, max_run_s=60, entry_point="mine.py")',
        'create_lifecycle_dags(model="delay", rows_from="trains", start=start)',
    )
    assert bag.import_errors == {} and "delay_tune" not in bag.dags
    dag = bag.dags["late_tune"]
    tune, train = dag.get_task("tune"), dag.get_task("train")
    assert (tune.entry_point, tune.max_run_s) == ("mine.py", None), "section tune has the limit of a trial"
    assert (train.entry_point, train.max_run_s) == ("mine.py", 60)
    assert set(tune.channels) == {"train", "validation"}
    assert tune.upstream_task_ids == {"preprocess"} and "tune" in train.upstream_task_ids
    assert dag.get_task("record_outcome").is_teardown and dag.get_task("guard").request["trigger"] == "manual"


def test_two_models_of_one_name_in_a_file_are_refused(load_dags: Callable[..., DagBag]) -> None:
    """Airflow would keep the DAGs of the last call, and say nothing."""
    call = 'create_lifecycle_dags(model="late", start=start, max_run_s={})'
    (error,) = load_dags(call.format(60), call.format(99)).import_errors.values()
    assert "this file creates the DAGs of the model late more than once" in error


def test_a_scheduled_run_ingests_the_day_before_and_a_backfill_the_days_of_its_range(
    load_dags: Callable[..., DagBag],
) -> None:
    """At the time of a scheduled run, its own day has just begun. Airflow's backfill asks for keys, not for times."""
    bag = load_dags('create_lifecycle_dags(model="late", start=start)')
    timetable = create_timetable(bag.dags["trains_ingest"].schedule)
    info = timetable.next_dagrun_info_v2(
        last_dagrun_info=None, restriction=TimeRestriction(pendulum.datetime(2026, 2, 1), None, catchup=True)
    )
    assert info and (info.run_after, info.partition_key) == (pendulum.datetime(2026, 2, 1), "2026-01-31")
    first, last = pendulum.datetime(2026, 2, 1), pendulum.datetime(2026, 2, 3)
    keys = [run.partition_key for run in timetable.iter_partition_dagrun_infos(earliest=first, latest=last)]
    assert keys == ["2026-02-01", "2026-02-02", "2026-02-03"]


def test_the_runs_of_an_hourly_or_monthly_dataset_have_keys_of_its_unit(load_dags: Callable[..., DagBag]) -> None:
    bag: Any = load_dags(
        "from leeway.lifecycle import create_ingestion_dag",
        'create_ingestion_dag(dataset="calls", start=start, schedule="0 * * * *", partition="hour")',
        'create_ingestion_dag(dataset="bills", start=start, schedule="0 0 1 * *", partition="month")',
    )
    assert bag.import_errors == {}
    for dag_id, (key, by_hand) in {
        "calls_ingest": ("2026-01-31T23", "2026-02-01T07"),
        "bills_ingest": ("2026-01", "2026-02"),
    }.items():
        dag = bag.dags[dag_id]
        assert " day" not in f"{dag.description} {dag.doc_md}", "its texts name another unit than its partitions"
        info = create_timetable(dag.schedule).next_dagrun_info_v2(
            last_dagrun_info=None, restriction=TimeRestriction(pendulum.datetime(2026, 2, 1), None, catchup=True)
        )
        assert info
        assert info.partition_key == key
        for task_id in ("ingest", "validate"):
            template = jinja2.Template(dag.get_task(task_id).partition)
            assert template.render(partition_key=key) == key
            assert template.render(partition_key=None, ds="2026-02-01", ts="2026-02-01T07:00:00+00:00") == by_hand


@pytest.mark.parametrize(
    ("partition", "ingest_schedule", "monitor_schedule"),
    [("hour", "0 * * * *", "0 0 * * *"), ("day", "0 0 * * *", "0 0 * * *"), ("month", "0 0 1 * *", "")],
)
def test_the_dags_fit_the_partitions_of_the_dataset(
    load_dags: Callable[..., DagBag], partition: str, ingest_schedule: str, monitor_schedule: str
) -> None:
    """Months have no drift: a DAG that decides on it could only fail."""
    bag = load_dags(f'create_lifecycle_dags(model="late", start=start, partition="{partition}")')
    assert bag.import_errors == {}
    assert create_timetable(bag.dags["trains_ingest"].schedule).summary == ingest_schedule
    kinds = [kind for kind in KINDS if monitor_schedule or kind != "monitor"]
    assert set(bag.dags) == {"trains_ingest", "trains_withdraw", *(f"late_{kind}" for kind in kinds)}
    if monitor_schedule:
        assert create_timetable(bag.dags["late_monitor"].schedule).summary == monitor_schedule


def list_tasks(bag: DagBag, dag_id: str) -> list[str]:
    return sorted(bag.dags[dag_id].task_ids)


def test_drift_is_decided_on_the_profiles_of_the_scores_or_of_the_requests(load_dags: Callable[..., DagBag]) -> None:
    """One profile of a version and day replaces another, so that only one of the DAGs may write it."""
    bag: Any = load_dags(
        'create_lifecycle_dags(model="late", start=start, deploy=True, materialize=True)',
        'create_lifecycle_dags(model="delay", start=start, rows_from="trains", deploy=True, drift_of="requests")',
    )
    assert bag.import_errors == {}
    assert list_tasks(bag, "late_score") == ["outcomes", "profile", "score"]
    assert list_tasks(bag, "late_serving_monitor") == ["collect", "outcomes", "skew", "versions"]
    assert list_tasks(bag, "late_materialize") == ["materialize"]
    assert list_tasks(bag, "delay_score") == ["outcomes", "score"]
    assert list_tasks(bag, "delay_serving_monitor") == ["collect", "outcomes", "profile", "skew", "versions"]
    assert "delay_materialize" not in bag.dags
    profile = bag.dags["delay_serving_monitor"].get_task("profile")
    assert profile.upstream_task_ids == {"collect"}
    assert bag.dags["late_materialize"].schedule.asset_condition.name == "trains"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            'drift_of="requests"',
            "drift_of='requests' needs an endpoint, and partitions by day. Give deploy=True and partition='day'.",
        ),
        (
            'drift_of="requests", deploy=True, partition="hour"',
            "drift_of='requests' needs an endpoint, and partitions by day.",
        ),
        ('drift_of="rows"', "unknown drift_of 'rows'. Use one of: scores, requests."),
    ],
)
def test_drift_of_requests_that_cannot_be_decided_is_one_line(
    load_dags: Callable[..., DagBag], arguments: str, text: str
) -> None:
    (error,) = load_dags(f'create_lifecycle_dags(model="late", start=start, {arguments})').import_errors.values()
    assert text in error.replace("\n", " ")


@pytest.mark.parametrize("rows_from", ["", "trains"])
def test_an_unknown_partition_is_one_line(load_dags: Callable[..., DagBag], rows_from: str) -> None:
    bag = load_dags(f'create_lifecycle_dags(model="late", start=start, partition="week", rows_from="{rows_from}")')
    (error,) = bag.import_errors.values()
    assert "SpecError: unknown partition 'week'. Use one of: hour, day, month." in error.replace("\n", " ")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("lat", "there is no model 'lat'.*The models are delay, late, new"),
        ("new", "the parameters of model new name no dataset"),
    ],
)
def test_a_model_without_parameters_or_dataset_is_one_line(
    load_dags: Callable[..., DagBag], model: str, text: str
) -> None:
    bag = load_dags(f'create_lifecycle_dags(model="{model}", start=start)')
    (error,) = bag.import_errors.values()
    assert bag.dags == {}
    assert re.search(text, error.replace("\n", " "))
