"""Test that each of two tasks of a run reports its own notices, and that a retry reports the same ones."""

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from leeway.operators.showback import ShowbackOperator

from pipelines.costs.showback.notice import Notice
from pipelines.costs.showback.notice_table import NoticeTable

NOW = dt.datetime(2026, 11, 28, 6, tzinfo=dt.UTC)


def render_run(task: ShowbackOperator, map_index: int = -1) -> str:
    """Return the task by which the step claims its notices."""
    context: Any = {"dag": task.dag, "run_id": "r1", "task": task, "ti": SimpleNamespace(map_index=map_index)}
    context["dag_run"] = SimpleNamespace(triggering_user_name="")
    task.render_template_fields(context)
    return str(task.actor_variables["LEEWAY_RUN"])


@pytest.fixture
def tasks() -> list[ShowbackOperator]:
    """Return two tasks of a DAG."""
    with DAG("costs"):
        return [ShowbackOperator(task_id=f"{team}_costs") for team in ("harbor", "street")]


@pytest.mark.usefixtures("home")
def test_two_tasks_of_a_run_report_each_notice_once(tasks: list[ShowbackOperator]) -> None:
    runs = [render_run(task) for task in tasks]
    assert runs == ["costs/r1/harbor_costs", "costs/r1/street_costs"]
    notices = [
        Notice(
            kind="threshold", project=project, subject="2026-11", budget_usd=50.0, threshold_percent=80, text="spent"
        )
        for project in ("harbor", "street")
    ]
    for _ in range(2):  # the second time is a retry of both
        for run, notice in zip(runs, notices, strict=True):
            claimed = NoticeTable.open().claim([notice], run, NOW)
            assert [item.project for item in claimed] == [notice.project]
    assert NoticeTable.open().claim(notices, "costs/r2/harbor_costs", NOW) == []


def test_mapped_tasks_are_different(tasks: list[ShowbackOperator]) -> None:
    assert render_run(tasks[0], 3) == "costs/r1/harbor_costs/3"
