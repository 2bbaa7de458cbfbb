"""Events for what changed, none for what did not, and watermarks; the real Airflow is in the integration tests."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessors
from leeway.hooks.step.asset_events import remember
from leeway.operators.backfill import BackfillOperator
from leeway.operators.sync import SyncOperator
from leeway.operators.validate import ValidateOperator

FLIGHTS, OTHER = (Asset(name=name, uri=f"x-leeway://lake/{name}") for name in ("flights", "other"))
CHANGES = {"added": 1, "removed": 0, "changed": 0}
PUBLISHED = f"result(partition='2013-01-01', snapshot_id=7, rows=3, changed=True, changes={CHANGES}, columns=[])"


class Store(dict[str, Any]):
    def set(self, key: str, value: Any) -> None:
        self[key] = value


@pytest.fixture
def context() -> dict[str, Any]:
    events, stores = OutletEventAccessors(), {FLIGHTS: Store()}
    return {"outlet_events": events, "asset_state_store": stores, "dag_run": SimpleNamespace(partition_key=None)}


def ran(task: Any, context: dict[str, Any]) -> Any:
    context |= {"ti": SimpleNamespace(task=task), "outlet_events": OutletEventAccessors()}
    return task.execute(context)


def validate(stub: Any, **more: Any) -> ValidateOperator:
    return ValidateOperator(task_id="validate", dataset="flights", asset=FLIGHTS, python=stub(PUBLISHED), **more)


def test_a_version_is_announced_until_airflow_has_its_event(stub, project, context):
    for _ in range(2):  # the first try dies before its end: nothing is remembered
        task = validate(stub, outlets=[OTHER])
        ran(task, context)
        event = context["outlet_events"][FLIGHTS]
        assert event.extra["partition"] == "2013-01-01"
        assert (event.extra["changes"], event.extra["snapshot_id"]) == (CHANGES, 7)
        assert event.partition_keys == {"2013-01-01"}
        assert task.outlets == [OTHER, FLIGHTS]
    remember(context)
    assert context["asset_state_store"][FLIGHTS] == {"announced 2013-01-01": 7}
    task = validate(stub, outlets=[OTHER])
    ran(task, context)
    assert task.outlets == [OTHER], "of an asset that is no outlet there is no event"
    remember(context)
    assert context["asset_state_store"][FLIGHTS] == {"announced 2013-01-01": 7}


def test_another_version_is_announced(stub, project, context):
    context["asset_state_store"][FLIGHTS]["announced 2013-01-01"] = 6
    task = validate(stub)
    ran(task, context)
    assert task.outlets == [FLIGHTS]


def test_a_run_of_the_partition_gives_its_own_key(stub, project, context):
    context["dag_run"].partition_key = "2013-01-01"
    ran(validate(stub), context)
    assert context["outlet_events"][FLIGHTS].partition_keys == set()


def test_an_asset_that_is_an_outlet_already_is_one_once(stub):
    assert validate(stub, outlets=[FLIGHTS]).outlets == [FLIGHTS]
    heard: list[Any] = []
    assert validate(stub, on_success_callback=heard.append).on_success_callback == [heard.append, remember]


def test_without_an_asset_nothing_is_announced(stub, project):
    task = ValidateOperator(task_id="validate", dataset="flights", python=stub(PUBLISHED))
    assert task.execute({})["snapshot_id"] == 7
    assert (list(task.outlets), list(task.on_success_callback)) == ([], [])


def test_days_of_a_backfill_are_announced_as_one(stub, project, context):
    python = stub("result(published=2, changed=1, skipped=0, absent=0, snapshot_id=9)")
    days = {"first": "2013-01-01", "last": "2013-01-31"}
    task = BackfillOperator(task_id="publish", dataset="weather", asset=FLIGHTS, python=python, **days)
    ran(task, context)
    event = context["outlet_events"][FLIGHTS]
    assert event.extra == {"partition": "2013-01-01..2013-01-31", "snapshot_id": 9, "changed": 1}
    assert event.partition_keys == set()
    python = stub("result(published=0, changed=0, skipped=0, absent=31, snapshot_id=0)")
    task = BackfillOperator(task_id="publish", dataset="weather", asset=FLIGHTS, python=python, **days)
    ran(task, context)
    assert task.outlets == [], "of nothing there is no event"


def test_the_watermark_moves_when_the_step_has_ended_well(stub, project, context):
    def sync(body: str) -> Any:
        return ran(SyncOperator(task_id="sync", dataset="orders", asset=FLIGHTS, python=stub(body)), context)

    store = context["asset_state_store"][FLIGHTS]
    assert sync("result(watermark='5', asked=spec())")["asked"] == {"dataset": "orders", "watermark": ""}
    assert store == {"watermark": "5"}
    with pytest.raises(Exception, match="busy"):
        sync("report(75, 'busy')")
    assert store == {"watermark": "5"}
    assert sync("result(watermark='7', asked=spec())")["asked"]["watermark"] == "5"
    assert store == {"watermark": "7"}
