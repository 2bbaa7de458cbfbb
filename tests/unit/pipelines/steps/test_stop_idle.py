"""Test in which list of the result each endpoint is; the steps `stop_idle` and `sweep_idle` use the same lists."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from pipelines.idle import sweep as idle_sweep
from pipelines.idle.kinds import Kind
from pipelines.idle.sweep import Finding
from pipelines.serving import undeployment
from pipelines.steps.stop_idle import StopIdleSpec, run
from pipelines.steps.sweep_idle import SweepIdleSpec
from pipelines.steps.sweep_idle import run as run_sweep_idle

OUTCOMES: Sequence[idle_sweep.Outcome] = ("idle", "exempt", "unknown", "used_again", "stopped", "gone")


class NoEndpoints:
    """The endpoints of a region that has none. No test sends a request with its clients."""

    region, sagemaker, cloudwatch = "us-east-1", None, None

    def finish_deletions(self) -> None:
        """Find no deletion to finish."""


@pytest.fixture(autouse=True)
def _set_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sweep find one endpoint for each outcome, with the outcome as its name."""

    def find(kinds: Sequence[Kind], idle_time: dt.timedelta, kinds_to_stop: Collection[str], region: str) -> list[Any]:
        return [Finding("endpoint", outcome, outcome, usd_month=1.0) for outcome in OUTCOMES]

    monkeypatch.setattr(undeployment, "Endpoints", NoEndpoints)
    monkeypatch.setattr(idle_sweep, "sweep", find)


def _list_outcomes() -> dict[str, list[str]]:
    return run(StopIdleSpec(delete=True)).model_dump(exclude={"schema_version"})


def test_each_endpoint_is_in_the_list_of_its_outcome() -> None:
    assert _list_outcomes() == {
        "idle": ["idle"],
        "exempt": ["exempt"],
        "unknown": ["unknown"],
        "used_again": ["used_again"],
        "stopped": ["stopped"],
    }


def test_the_lists_are_those_of_sweep_idle() -> None:
    swept = run_sweep_idle(SweepIdleSpec(kinds=["endpoint"], stop=["endpoint"])).model_dump()
    for name, names in _list_outcomes().items():
        assert swept[name] == [f"endpoint {endpoint}" for endpoint in names]
