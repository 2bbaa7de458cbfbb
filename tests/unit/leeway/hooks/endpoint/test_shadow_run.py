"""Test that a shadow runs once and its judgement is reported, at whatever call the process of its task is killed."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.endpoint.client import EndpointClient
from leeway.hooks.endpoint.deployment_tag import DEPLOYMENT_TAG, build_announcement
from leeway.hooks.endpoint.shadow_requests import SHADOW_TAG, Shadow
from leeway.hooks.endpoint.shadow_run import Event, ShadowRun, Wait
from leeway.hooks.endpoint.shadow_wait import ShadowWait
from leeway.hooks.endpoint.wait import DeploymentWait
from leeway.hooks.sagemaker.costs import Costs
from leeway.hooks.step.hook import StepHook

CREATED = dt.datetime(2026, 11, 25, tzinfo=dt.UTC)
VARIANT = {
    "VariantName": "AllTraffic", "ModelName": "served", "InstanceType": "ml.m5.large",
    "InitialInstanceCount": 1, "InitialVariantWeight": 1.0,
}  # fmt: skip
RUN = {"dag_id": "d", "run_id": "r", "task_id": "shadow", "map_index": -1}


class Killed(BaseException):
    """The process was killed."""


@dataclass
class SageMaker:
    """Stands for an endpoint and for the hook that runs steps. Kills its caller at one call that changes something."""

    name: str = "flights"
    outcome: str = "failed"
    killing_call: int = -1
    is_answered: bool = True
    """Whether the call at which the caller is killed has its effect."""
    config_name: str = "base"
    modified_at: dt.datetime = CREATED
    tags: dict[str, str] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {"base": {"EndpointConfigName": "base", "ProductionVariants": [VARIANT]}}
    )
    calls: int = 0
    begun_shadows: int = 0
    events: list[str] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        return {
            "EndpointName": self.name, "EndpointArn": "arn", "EndpointStatus": "InService",
            "EndpointConfigName": self.config_name, "LastModifiedTime": self.modified_at, "CreationTime": CREATED,
        }  # fmt: skip

    def describe_config(self, name: str) -> dict[str, Any]:
        return self.configs[name]

    def read_config_tags(self, config: dict[str, Any]) -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in config["Tags"]}

    def read_own_tags(self, endpoint: Any) -> dict[str, str]:
        return dict(self.tags)

    def read_log_end(self, variant: str) -> list[str]:
        return []

    def set_tags(self, endpoint: Any, tags: dict[str, str]) -> None:
        self._call(lambda: self.tags.update(tags))

    def remove_tag(self, endpoint: Any, key: str) -> None:
        self._call(lambda: self.tags.pop(key, None))

    def create_model_and_config(self, model: Any, config: dict[str, Any]) -> None:
        self._call(lambda: self.configs.update({config["EndpointConfigName"]: config}))

    def delete_config_and_model(self, config_name: str, model_name: str) -> None:
        assert config_name != self.config_name, "SageMaker would refuse it"
        self._call(lambda: self.configs.pop(config_name, None))

    def update(self, config_name: str) -> None:
        def change() -> None:
            self.config_name, self.modified_at = config_name, self.modified_at + dt.timedelta(seconds=1)
            self.begun_shadows += config_name != "base"

        self._call(change)

    def run(self, step: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Run a step."""
        self._call(lambda: self.events.append(spec["outcome"]) if step == "record_deployment" else None)
        return {"outcome": self.outcome, "reason": "the scores differ"}

    def _call(self, change: Callable[[], Any]) -> None:
        self.calls += 1
        is_killed = self.calls - 1 == self.killing_call
        if self.is_answered or not is_killed:
            change()
        if is_killed:
            raise Killed


def run_task(sagemaker: SageMaker, max_tries: int = 2) -> dict[str, Any]:
    """Run a try of the task until it has a result."""
    shadow = Shadow(
        "flights", "2", "1", {"shadow_minutes": 60, "shadow_requests": 0}, {"ModelName": "new"}, "s3://b/c", [], RUN,
        max_tries,
    )  # fmt: skip
    costs = cast(Costs, type("Costs", (), {"check_budget": staticmethod(lambda machines: {"allowed": True})}))
    template = DeploymentWait(endpoint="flights", config_name="", check_interval_s=1, max_duration_s=1)
    event: Event | None = None
    for _ in range(9):
        run = ShadowRun(
            cast(EndpointClient, sagemaker), shadow, {}, costs, cast(StepHook, sagemaker), template,
            logging.getLogger("test"),
        )  # fmt: skip
        wait = run.resume(event)
        if isinstance(wait, dict):
            return wait
        event = end_wait(sagemaker, wait)
    raise AssertionError("the task does not end")


def end_wait(sagemaker: SageMaker, wait: Wait) -> Event:
    """Do what the triggerer does for a wait."""
    if isinstance(wait, ShadowWait):
        return wait.build_event("over")
    if wait.tag:
        sagemaker.set_tags({}, {DEPLOYMENT_TAG: build_announcement(wait.tag, wait.modification)})
    sagemaker.update(wait.config_name)
    if wait.tag:
        sagemaker.set_tags({}, {DEPLOYMENT_TAG: wait.tag})
    return wait.build_event("ended")


def count_calls(**fields: Any) -> int:
    """Return the number of calls of a task that nobody kills."""
    sagemaker = SageMaker(**fields)
    run_task(sagemaker)
    return sagemaker.calls


CALLS = 12
"""Calls of a task whose shadow fails."""


def test_calls_are_counted() -> None:
    assert count_calls() == CALLS


@pytest.mark.parametrize("outcome", ["failed", "undecided", "passed"])
@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("call", range(CALLS))
def test_shadow_runs_once_and_its_judgement_is_reported(call: int, is_answered: bool, outcome: str) -> None:
    sagemaker = SageMaker(outcome=outcome, killing_call=call, is_answered=is_answered)
    with suppress(Killed):  # a version that passes has one call less
        run_task(sagemaker)
    sagemaker.killing_call = -1
    for _ in range(2):  # the second one stands for a kill after the last call, before Airflow has the result
        assert run_task(sagemaker)["outcome"] == outcome
    assert sagemaker.begun_shadows == 1
    assert set(sagemaker.events) == {f"shadow_{outcome}"}
    assert (sagemaker.config_name, list(sagemaker.configs)) == ("base", ["base"])
    cleared = run_task(sagemaker, max_tries=3)
    assert (cleared["outcome"], sagemaker.begun_shadows) == (outcome, 1 if outcome == "passed" else 2)
    run_task(sagemaker, max_tries=3)
    assert sagemaker.begun_shadows == (1 if outcome == "passed" else 2)


def end_by_another_deployment(sagemaker: SageMaker) -> None:
    """Begin a shadow, and replace it by another deployment before it ends."""
    sagemaker.killing_call = 5
    with pytest.raises(Killed):
        run_task(sagemaker)
    assert sagemaker.config_name != "base" and SHADOW_TAG in sagemaker.tags
    sagemaker.update("base")


@pytest.mark.parametrize("call", [0, 1])
def test_shadow_that_another_deployment_ended_is_an_error_until_the_task_is_cleared(call: int) -> None:
    sagemaker = SageMaker()
    end_by_another_deployment(sagemaker)
    sagemaker.killing_call = sagemaker.calls + call
    for _ in range(3):
        with pytest.raises((AirflowFailException, Killed)) as error:
            run_task(sagemaker)
    assert "was changed by another deployment while version 2" in str(error.value)
    assert run_task(sagemaker, max_tries=3)["outcome"] == "failed" and sagemaker.begun_shadows == 2


def test_task_that_was_cleared_during_its_shadow_begins_another_one() -> None:
    """The trigger has removed the shadow variant, as the DAG's page says of a clear."""
    sagemaker = SageMaker()
    end_by_another_deployment(sagemaker)
    assert run_task(sagemaker, max_tries=3)["outcome"] == "failed" and sagemaker.begun_shadows == 2
