"""The sensor of drift: what it waits for, what it skips, what its event says; and its button."""

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
FOUND: dict[str, Any] = {
    "partition": "2013-04-07", "as_of": "2013-04-08", "model_name": "flights", "version": "2", "missing": [],
    "outcome": "drift", "reasons": ["wind: psi 0.4", "gust: gone"], "worst": ["wind", "gust"], "retrain": True,
    "page": "http://docs/drift.html",
}  # fmt: skip


def sensor(python: str = "", **more: Any) -> DriftSensor:
    given = {
        "dataset": "flights",
        "model_name": "flights",
        "partition": "2013-04-07",
        "backfill": "False",
        "asset": DRIFT,
    }
    return DriftSensor(task_id="drift", python=python, **{**given, **more})


@pytest.fixture
def context() -> dict[str, Any]:
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))
    return {"ti": ti, "pushed": pushed, "outlet_events": {DRIFT: SimpleNamespace(extra={})}}


@pytest.fixture
def found(stub: Callable[[str], str], project: Path) -> Callable[..., str]:
    """An interpreter whose step finds this."""
    return lambda **fields: stub(f"result(**{ ({**FOUND, **fields})!r})")


def test_drift_is_told_to_the_asset(found: Callable[..., str], context: dict[str, Any]) -> None:
    assert sensor(found()).execute(context)["worst"] == ["wind", "gust"]
    told = context["outlet_events"][DRIFT].extra
    assert (told["as_of"], told["reason"], told["worst"]) == (
        "2013-04-08",
        "wind: psi 0.4; gust: gone",
        ["wind", "gust"],
    )
    assert told["page"] == FOUND["page"]


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ("none", "none: wind"),
        ("undecided", "undecided: wind"),
        ("drift", "drift, but this backfill may not retrain: wind"),
    ],
)
def test_all_else_is_a_skip_that_says_why(
    found: Callable[..., str], context: dict[str, Any], outcome: str, why: str
) -> None:
    with pytest.raises(AirflowSkipException, match=why):
        sensor(found(outcome=outcome, retrain=False)).execute(context)
    assert context["pushed"]["return_value"]["outcome"] == outcome
    assert context["outlet_events"][DRIFT].extra == {}


def test_missing_profiles_are_waited_for_without_a_worker(found: Callable[..., str], context: dict[str, Any]) -> None:
    waiting = sensor(found(missing=["2013-04-06"], outcome="undecided", retrain=False), poke_interval=300)
    with pytest.raises(TaskDeferred) as caught:
        waiting.execute(context)
    assert caught.value.method_name == "check_again"
    later = sensor(found())
    assert later.check_again(context, None, **caught.value.kwargs)["retrain"]


def test_profiles_that_never_come_fail_the_task_and_are_named(
    found: Callable[..., str], context: dict[str, Any]
) -> None:
    waiting = sensor(found(missing=["2013-04-06"], outcome="undecided", retrain=False), timeout=60)
    with pytest.raises(AirflowSensorTimeout, match="no profile of 2013-04-06 by version 2 after 60 s"):
        waiting.check_again(context, None, since=0.0)
    plain = sensor(found(missing=["2013-04-06"]), timeout=0, poke_interval=0, deferrable=False)
    with pytest.raises(AirflowSensorTimeout):
        plain.execute(context)


def test_without_the_triggerer_it_is_a_sensor_like_any(found: Callable[..., str], context: dict[str, Any]) -> None:
    assert sensor(found(), deferrable=False).execute(context)["outcome"] == "drift"


def test_its_button_leads_to_the_page_that_the_step_names(home: Path) -> None:
    from pipelines.settings import settings

    told = DriftLink().get_link(sensor(), ti_key=None)  # type: ignore[arg-type]
    assert told == (home / "docs/drift/flights/2013-04-07/drift.html").as_uri()
    assert told == settings().drift_page("flights", "2013-04-07")
    assert DriftLink().get_link(sensor(partition=""), ti_key=None) == ""  # type: ignore[arg-type]
    assert f"{DriftLink.__module__}.{DriftLink.__qualname__}" in get_provider_info()["extra-links"]


def test_airflow_keeps_button_and_asset() -> None:
    with DAG("d", schedule=None) as dag:
        sensor()
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task("drift")
    assert read.extra_links == ["Drift"]
    assert [one.name for one in read.outlets] == ["flights_drift"]
