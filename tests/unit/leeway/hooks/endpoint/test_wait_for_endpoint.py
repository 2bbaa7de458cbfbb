"""Test that a stored wait begins its deployment once, at whatever call its process is killed and started again."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest
from botocore.exceptions import ClientError
from leeway.hooks.endpoint.deployment_tag import DEPLOYMENT_TAG, get_modification_time, has_begun
from leeway.hooks.endpoint.wait import DeploymentEvent, DeploymentWait
from leeway.hooks.endpoint.wait_for_endpoint import _EndpointMonitor, start_and_wait_for_endpoint

START = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
NAME = "new/0123456789ab"
CALLS = 5
"""Calls of a wait that begins an update: describe, list the tags, announce, update, describe, and then the tag."""
LOG = logging.getLogger("test")


class Killed(BaseException):
    """The process was killed."""


@dataclass
class SageMaker:
    """Stands for SageMaker with one endpoint, which serves the configuration `old`; kills its caller at one call."""

    killing_call: int = -1
    is_answered: bool = True
    """Whether the call at which the caller is killed has its effect."""
    refusal: str = ""
    """Error of the next requests to UpdateEndpoint."""
    tags: dict[str, str] = field(default_factory=dict)
    config: str = "old"
    pending: str = ""
    reason: str = ""
    modifications: int = 0
    updates: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        pending = {"PendingDeploymentSummary": {"EndpointConfigName": self.pending}} if self.pending else {}
        return {
            "EndpointArn": "arn", "EndpointConfigName": self.config, **pending, "FailureReason": self.reason,
            "EndpointStatus": "Updating" if self.pending else "InService",
            "LastModifiedTime": START + dt.timedelta(seconds=self.modifications),
        }  # fmt: skip

    def end(self, outcome: str) -> None:
        """End the update in progress, if there is one."""
        if self.pending:
            self.config = self.pending if outcome == "deployed" else self.config
            self.reason = "" if outcome == "deployed" else "an alarm was raised"
            self.pending, self.modifications = "", self.modifications + 1

    async def describe_endpoint(self, **_: Any) -> dict[str, Any]:
        return self._call("describe", self.describe)

    async def list_tags(self, **_: Any) -> dict[str, Any]:
        return self._call("list", lambda: {"Tags": [{"Key": key, "Value": self.tags[key]} for key in self.tags]})

    async def add_tags(self, Tags: list[dict[str, str]], **_: Any) -> None:
        self._call("tag", lambda: self.tags.update({tag["Key"]: tag["Value"] for tag in Tags}))

    async def delete_tags(self, TagKeys: list[str], **_: Any) -> None:
        self._call("untag", lambda: [self.tags.pop(key, None) for key in TagKeys])

    async def update_endpoint(self, EndpointConfigName: str, **_: Any) -> None:
        self._call("update", lambda: self._update(EndpointConfigName))

    def _update(self, config: str) -> None:
        text = "Cannot update in-progress endpoint" if self.pending else self.refusal
        if text:
            raise ClientError({"Error": {"Code": "ValidationException", "Message": text}}, "UpdateEndpoint")
        self.updates.append(config)
        self.pending, self.reason, self.modifications = config, "", self.modifications + 1

    def _call(self, name: str, effect: Any) -> Any:
        is_killed = len(self.calls) == self.killing_call
        self.calls.append(name)
        result = effect() if self.is_answered or not is_killed else None
        if is_killed:
            raise Killed
        return result


@dataclass(frozen=True)
class Wait(DeploymentWait):
    """A wait whose client is the stand-in."""

    sagemaker: Any = None

    @asynccontextmanager
    async def open_client(self) -> AsyncIterator[Any]:
        yield self.sagemaker


def build_wait(sagemaker: SageMaker, **fields: Any) -> Wait:
    """Build the wait that a task stores which has just described the endpoint."""
    values: dict[str, Any] = {
        "endpoint": "flights", "config_name": "new", "check_interval_s": 0, "max_duration_s": 1, "verb": "update",
        "request": {"EndpointConfigName": "new"}, "tag": NAME,
        "modification": get_modification_time(sagemaker.describe()),
        "aws_conn_id": None, "region_name": None, "verify": None, "botocore_config": None,
    }  # fmt: skip
    return Wait(**{**values, **fields}, sagemaker=sagemaker)


def check(wait: DeploymentWait) -> bool:
    """Check the endpoint once, as a process does that has just started. Return whether it is being changed."""
    return asyncio.run(_EndpointMonitor(wait, LOG).check())


def finish(wait: DeploymentWait) -> DeploymentEvent:
    return asyncio.run(start_and_wait_for_endpoint(wait, LOG))


@pytest.mark.parametrize("outcome", ["deployed", "rolled back"])
@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("call", range(CALLS + 1))
def test_update_begins_once_at_whatever_call_the_process_is_killed(call: int, is_answered: bool, outcome: str) -> None:
    sagemaker = SageMaker(killing_call=call, is_answered=is_answered)
    wait = build_wait(sagemaker)
    with pytest.raises(Killed):
        check(wait)
    sagemaker.end(outcome)  # nobody waits meanwhile
    is_update_lost = not sagemaker.updates
    assert check(wait) == is_update_lost, "only an update that was never sent begins now"
    sagemaker.end(outcome)
    assert sagemaker.updates == ["new"]
    event = finish(wait)
    assert (event["cause"], event["config_name"], sagemaker.updates) == ("ended", "new", ["new"])
    assert sagemaker.config == ("new" if outcome == "deployed" else "old")


@pytest.mark.parametrize("call", range(CALLS + 1))
@pytest.mark.parametrize("is_answered", [True, False])
def test_retry_of_the_task_knows_from_the_tag_whether_the_update_began(call: int, is_answered: bool) -> None:
    sagemaker = SageMaker(killing_call=call, is_answered=is_answered)
    with pytest.raises(Killed):
        check(build_wait(sagemaker))
    sagemaker.end("rolled back")
    tag = sagemaker.tags.get(DEPLOYMENT_TAG, "")
    assert has_begun(tag, NAME, 2, sagemaker.describe()) == bool(sagemaker.updates)


def test_a_wait_that_was_never_lost_calls_each_operation_once() -> None:
    sagemaker = SageMaker()
    assert check(build_wait(sagemaker))
    assert sagemaker.calls == ["describe", "list", "tag", "update", "describe", "tag"]
    assert len(sagemaker.calls) == CALLS + 1
    assert sagemaker.tags == {DEPLOYMENT_TAG: NAME}


def test_a_failure_that_was_reported_before_the_task_was_cleared_does_not_prevent_the_update() -> None:
    sagemaker = SageMaker(tags={DEPLOYMENT_TAG: f"{NAME}=failed/2"})
    assert check(build_wait(sagemaker))
    assert (sagemaker.updates, sagemaker.tags) == (["new"], {DEPLOYMENT_TAG: NAME})


def test_the_confirmed_tag_alone_prevents_a_second_update() -> None:
    sagemaker = SageMaker(tags={DEPLOYMENT_TAG: NAME})
    assert not check(build_wait(sagemaker))
    assert sagemaker.updates == []


@pytest.mark.parametrize("tag", ["other/0123456789ab", f"{NAME}=failed/2"])
def test_an_endpoint_that_another_process_changed_meanwhile_is_left_to_the_tasks_next_decision(tag: str) -> None:
    sagemaker = SageMaker(tags={DEPLOYMENT_TAG: tag})
    wait = build_wait(sagemaker)
    sagemaker._update("other")
    sagemaker.end("deployed")
    event = finish(wait)
    assert (event["cause"], event["config_name"], sagemaker.updates) == ("ended", "", ["other"])


def test_the_stored_removal_of_a_shadow_does_not_bring_an_old_configuration_back() -> None:
    sagemaker = SageMaker(config="with-shadow")
    wait = build_wait(sagemaker, config_name="base", request={"EndpointConfigName": "base"}, tag="")
    assert check(wait), "the removal begins"
    sagemaker.end("deployed")
    sagemaker._update("newer")
    sagemaker.end("deployed")
    event = finish(wait)
    assert (event["config_name"], sagemaker.config, sagemaker.updates) == ("", "newer", ["base", "newer"])


def test_a_wait_that_an_earlier_version_stored_has_no_time_and_leaves_the_decision_to_the_task() -> None:
    sagemaker = SageMaker()
    assert finish(build_wait(sagemaker, modification=""))["config_name"] == ""
    assert sagemaker.updates == []


@pytest.mark.parametrize(
    ("text", "cause", "config_name"),
    [("the configuration is wrong", "refused", "new"), ("Cannot update in-progress endpoint", "ended", "")],
)
def test_a_refused_update_is_not_announced_any_more(
    text: str, cause: Literal["refused", "ended"], config_name: str
) -> None:
    sagemaker = SageMaker(refusal=text)
    event = finish(build_wait(sagemaker))
    assert (event["cause"], event["config_name"]) == (cause, config_name)
    assert (sagemaker.tags, sagemaker.updates) == ({}, [])


def test_an_attached_wait_begins_nothing() -> None:
    sagemaker = SageMaker(pending="new", modifications=1)
    assert check(replace(build_wait(sagemaker), verb="", request=None, modification=""))
    assert (sagemaker.calls, sagemaker.tags) == (["describe", "tag"], {DEPLOYMENT_TAG: NAME})
