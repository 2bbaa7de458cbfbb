"""Test asset events and watermarks: a change has an event, no change has none. Integration tests use real Airflow."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessors
from leeway.hooks.step.asset_events import store_versions
from leeway.operators.backfill import BackfillOperator
from leeway.operators.sync import SyncOperator
from leeway.operators.validate import ValidateOperator

FLIGHTS, OTHER = (Asset(name=name, uri=f"x-leeway://lake/{name}") for name in ("flights", "other"))
CHANGES = {"added": 1, "removed": 0, "changed": 0}
PUBLISHED = f"result(partition='2013-01-01', snapshot_id=7, rows=3, changed=True, changes={CHANGES}, columns=[])"


class Store(dict[str, Any]):
    """A fake of Airflow's state store of one asset."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


@pytest.fixture
def context() -> dict[str, Any]:
    """Return a task's context with an empty store of the asset."""
    events, stores = OutletEventAccessors(), {FLIGHTS: Store()}
    return {"outlet_events": events, "asset_state_store": stores, "dag_run": SimpleNamespace(partition_key=None)}


def execute(task: Any, context: dict[str, Any]) -> Any:
    """Execute a task with new events, and return its result."""
    context |= {"ti": SimpleNamespace(task=task), "outlet_events": OutletEventAccessors()}
    return task.execute(context)


def make_task(write_python: Any, **fields: Any) -> ValidateOperator:
    """Return a task that publishes the first day."""
    python = write_python(PUBLISHED)
    return ValidateOperator(task_id="validate", dataset="flights", asset=FLIGHTS, python=python, **fields)


def test_snapshot_is_announced_until_airflow_has_its_event(write_python, project, context):
    for _ in range(2):  # the first try dies before its end, so nothing is stored
        task = make_task(write_python, outlets=[OTHER])
        execute(task, context)
        event = context["outlet_events"][FLIGHTS]
        assert event.extra["partition"] == "2013-01-01"
        assert (event.extra["changes"], event.extra["snapshot_id"]) == (CHANGES, 7)
        assert event.partition_keys == {"2013-01-01"}
        assert task.outlets == [OTHER, FLIGHTS]
    store_versions(context)
    assert context["asset_state_store"][FLIGHTS] == {"announced 2013-01-01": 7}
    task = make_task(write_python, outlets=[OTHER])
    execute(task, context)
    assert task.outlets == [OTHER], "an asset that is no outlet gets no event"
    store_versions(context)
    assert context["asset_state_store"][FLIGHTS] == {"announced 2013-01-01": 7}


def test_new_snapshot_is_announced(write_python, project, context):
    context["asset_state_store"][FLIGHTS]["announced 2013-01-01"] = 6
    task = make_task(write_python)
    execute(task, context)
    assert task.outlets == [FLIGHTS]


def test_event_has_no_partition_key_if_the_run_has_it(write_python, project, context):
    context["dag_run"].partition_key = "2013-01-01"
    execute(make_task(write_python), context)
    assert context["outlet_events"][FLIGHTS].partition_keys == set()


def test_asset_is_added_to_the_outlets_only_once(write_python):
    assert make_task(write_python, outlets=[FLIGHTS]).outlets == [FLIGHTS]
    calls: list[Any] = []
    assert make_task(write_python, on_success_callback=calls.append).on_success_callback == [
        calls.append,
        store_versions,
    ]


def test_task_without_an_asset_announces_nothing(write_python, project):
    task = ValidateOperator(task_id="validate", dataset="flights", python=write_python(PUBLISHED))
    assert task.execute({})["snapshot_id"] == 7
    assert (list(task.outlets), list(task.on_success_callback)) == ([], [])


def test_days_of_a_backfill_share_one_event(write_python, project, context):
    python = write_python("result(published=2, changed=1, skipped=0, absent=0, snapshot_id=9)")
    days = {"first": "2013-01-01", "last": "2013-01-31"}
    task = BackfillOperator(task_id="publish", dataset="weather", asset=FLIGHTS, python=python, **days)
    execute(task, context)
    event = context["outlet_events"][FLIGHTS]
    assert event.extra == {"partition": "2013-01-01..2013-01-31", "snapshot_id": 9, "changed": 1}
    assert event.partition_keys == set()
    python = write_python("result(published=0, changed=0, skipped=0, absent=31, snapshot_id=0)")
    task = BackfillOperator(task_id="publish", dataset="weather", asset=FLIGHTS, python=python, **days)
    execute(task, context)
    assert task.outlets == [], "no change gives no event"


def test_watermark_moves_only_after_a_successful_step(write_python, project, context):
    def sync(body: str) -> Any:
        return execute(
            SyncOperator(task_id="sync", dataset="orders", asset=FLIGHTS, python=write_python(body)), context
        )

    store = context["asset_state_store"][FLIGHTS]
    assert sync("result(watermark='5', spec=spec())")["spec"] == {"dataset": "orders", "watermark": ""}
    assert store == {"watermark": "5"}
    with pytest.raises(Exception, match="busy"):
        sync("report(75, 'busy')")
    assert store == {"watermark": "5"}
    assert sync("result(watermark='7', spec=spec())")["spec"]["watermark"] == "5"
    assert store == {"watermark": "7"}
