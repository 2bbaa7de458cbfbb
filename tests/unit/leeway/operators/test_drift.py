"""Test the drift sensor: when it waits, when it is skipped, its asset event, and its link."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException, TaskDeferred
from airflow.serialization.serialized_objects import DagSerialization
from leeway.links.drift import DriftLink
from leeway.operators.drift import DriftSensor
from leeway.provider import get_provider_info

DRIFT = Asset(name="flights_drift", uri="x-leeway://drift/flights")
RESULT: dict[str, Any] = {
    "partition": "2013-04-07", "as_of": "2013-04-08", "model_name": "flights", "version": "2", "missing": [],
    "outcome": "drift", "reasons": ["wind: psi 0.4", "gust: gone"], "drifted_columns": ["wind", "gust"],
    "retrain": True,
    "page": "http://docs/drift.html",
}  # fmt: skip


def make_sensor(python: str = "", **arguments: Any) -> DriftSensor:
    """Return a sensor of one day."""
    defaults = {
        "dataset": "flights",
        "model": "flights",
        "partition": "2013-04-07",
        "backfill": "False",
        "asset": DRIFT,
    }
    return DriftSensor(task_id="drift", python=python, **{**defaults, **arguments})


@pytest.fixture
def context() -> dict[str, Any]:
    """Return a task's context, with what the task pushes to XCom in `pushed`."""
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))
    return {"ti": ti, "pushed": pushed, "outlet_events": {DRIFT: SimpleNamespace(extra={})}}


@pytest.fixture
def write_step(write_python: Callable[[str], str], project: Path) -> Callable[..., str]:
    """Return the function that writes an interpreter whose step has a result with these fields."""
    return lambda **fields: write_python(f"result(**{ ({**RESULT, **fields})!r})")


def test_drift_is_reported_in_the_asset_event(write_step: Callable[..., str], context: dict[str, Any]) -> None:
    assert make_sensor(write_step()).execute(context)["drifted_columns"] == ["wind", "gust"]
    extra = context["outlet_events"][DRIFT].extra
    assert (extra["as_of"], extra["reason"], extra["drifted_columns"]) == (
        "2013-04-08",
        "wind: psi 0.4; gust: gone",
        ["wind", "gust"],
    )
    assert extra["page"] == RESULT["page"]


def test_an_overdue_training_is_requested_without_drift(
    write_step: Callable[..., str], context: dict[str, Any]
) -> None:
    overdue_reason = "the last training was as of 2013-02-01, 66 days before 2013-04-08; the next is due after 60 days"
    fields = {
        "outcome": "none",
        "reasons": ["nothing drifted"],
        "drifted_columns": [],
        "overdue_reason": overdue_reason,
    }
    assert make_sensor(write_step(**fields)).execute(context)["retrain"]
    extra = context["outlet_events"][DRIFT].extra
    assert (extra["as_of"], extra["reason"], extra["drifted_columns"]) == ("2013-04-08", overdue_reason, [])
    with pytest.raises(AirflowSkipException, match="none: the last training was"):
        make_sensor(write_step(**fields, retrain=False)).execute(context)


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ("none", "none: wind"),
        ("undecided", "undecided: wind"),
        ("drift", "drift, which requests no training here: wind"),
    ],
)
def test_sensor_without_a_retraining_is_skipped_and_says_why(
    write_step: Callable[..., str], context: dict[str, Any], outcome: str, message: str
) -> None:
    with pytest.raises(AirflowSkipException, match=message):
        make_sensor(write_step(outcome=outcome, retrain=False)).execute(context)
    assert context["pushed"]["return_value"]["outcome"] == outcome
    assert context["outlet_events"][DRIFT].extra == {}


def test_sensor_waits_for_missing_profiles_in_the_triggerer(
    write_step: Callable[..., str], context: dict[str, Any]
) -> None:
    waiting_sensor = make_sensor(
        write_step(missing=["2013-04-06"], outcome="undecided", retrain=False), poke_interval=300
    )
    with pytest.raises(TaskDeferred) as deferral:
        waiting_sensor.execute(context)
    assert deferral.value.method_name == "check_again"
    later_sensor = make_sensor(write_step())
    assert later_sensor.check_again(context, None, **deferral.value.kwargs)["retrain"]


def test_profiles_that_stay_missing_fail_the_task_and_are_named(
    write_step: Callable[..., str], context: dict[str, Any]
) -> None:
    waiting_sensor = make_sensor(write_step(missing=["2013-04-06"], outcome="undecided", retrain=False), timeout=60)
    with pytest.raises(AirflowSensorTimeout, match="no profile of 2013-04-06 by version 2 after 60 s"):
        waiting_sensor.check_again(context, None, since=0.0)
    blocking_sensor = make_sensor(write_step(missing=["2013-04-06"]), timeout=0, poke_interval=0, deferrable=False)
    with pytest.raises(AirflowSensorTimeout):
        blocking_sensor.execute(context)


def test_sensor_works_without_the_triggerer(write_step: Callable[..., str], context: dict[str, Any]) -> None:
    assert make_sensor(write_step(), deferrable=False).execute(context)["outcome"] == "drift"


def test_link_leads_to_the_page_that_the_step_names(home: Path) -> None:
    from pipelines.settings import settings

    url = DriftLink().get_link(make_sensor(), ti_key=None)
    assert url == (home / "docs/drift/flights/2013-04-07/drift.html").as_uri()
    assert url == settings().build_drift_url("flights", "2013-04-07")
    assert DriftLink().get_link(make_sensor(partition=""), ti_key=None) == ""
    assert f"{DriftLink.__module__}.{DriftLink.__qualname__}" in get_provider_info()["extra-links"]


def test_serialized_dag_has_the_link_and_the_asset() -> None:
    with DAG("d", schedule=None) as dag:
        make_sensor()
    task = DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task("drift")
    assert task.extra_links == ["Drift"]
    assert [outlet.name for outlet in task.outlets] == ["flights_drift"]
