"""Test the events about a model's champion: one for each change, none if nothing changed."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.context import OutletEventAccessors
from leeway.hooks.step.champion_events import build_champion_asset, store_champion
from leeway.operators.promote import PromoteOperator
from leeway.operators.rollback import RollbackOperator

ASSET = build_champion_asset("flights")


class Store(dict[str, Any]):
    """A fake of Airflow's state store of one asset."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


@pytest.fixture
def store() -> Store:
    """Return the empty state store of the asset."""
    return Store()


def execute(task: Any, store: Store) -> dict[str, Any] | None:
    """Execute a task; return the extra of its event, or None if it emits none."""
    events = OutletEventAccessors()
    context: Any = {
        "ti": SimpleNamespace(task=task),
        "outlet_events": events,
        "asset_state_store": {ASSET: store},
    }
    task.execute(context)
    extra = dict(events[ASSET].extra) if ASSET in task.outlets else None
    store_champion(context)
    return extra


def promote(write_python: Any, version: str, *, changed: bool = True, promoted: bool = True) -> PromoteOperator:
    python = write_python(
        f"result(version='{version}', promoted={promoted}, changed={changed}, previous='1', reason='it passed')"
    )
    return PromoteOperator(task_id="promote", model="flights", version=version, verdict="v", asset=ASSET, python=python)


def roll_back(write_python: Any, version: str) -> RollbackOperator:
    python = write_python(f"result(version='{version}', changed=True, previous='2', reason='it was slow')")
    return RollbackOperator(task_id="rollback", model="flights", why="it was slow", asset=ASSET, python=python)


def test_each_change_of_the_champion_has_one_event(write_python, project, store):
    event = {"champion": "2", "previous": "1", "reason": "it passed"}
    assert execute(promote(write_python, "2"), store) == event
    assert execute(promote(write_python, "2", changed=False), store) is None, "a retry after the end"
    assert execute(promote(write_python, "3", promoted=False), store) is None, "a backfill promotes nothing"
    assert execute(roll_back(write_python, "1"), store) == {"champion": "1", "previous": "2", "reason": "it was slow"}
    assert execute(promote(write_python, "2"), store) == event, "it is champion again"


def test_rollback_to_the_version_of_the_last_event_has_an_event(write_python, project, store):
    """The command `promote`, which emits none, made version 2 champion between the two."""
    assert execute(promote(write_python, "1"), store)
    assert execute(roll_back(write_python, "1"), store) == {"champion": "1", "previous": "2", "reason": "it was slow"}
    assert execute(promote(write_python, "1", changed=False), store) is None


def test_try_that_died_before_its_event_is_followed_by_one_that_emits_it(write_python, project, store):
    assert execute(promote(write_python, "2", changed=False), store) == {
        "champion": "2", "previous": "1", "reason": "it passed",
    }  # fmt: skip
    task = PromoteOperator(
        task_id="p", model="flights", version="2", verdict="v", python=write_python("result(promoted=True)")
    )
    assert task.execute({}) and task.outlets == [], "without an asset there is no event"
