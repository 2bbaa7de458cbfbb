"""The roles' policies against the calls that were recorded: each is allowed, and nothing else is."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.tools.iam import POLICIES, Call, allows, granted, policy, recorded, unseen

ROLES = ["airflow", "job"]
REASONS = json.loads((POLICIES / "reasons.json").read_text())
# Actions that IAM knows no resource for, and those that it knows none of while the resource is not made.
ANYWHERE = {
    *("sagemaker:ListTrainingJobs", "sagemaker:ListProcessingJobs", "sagemaker:ListTransformJobs"),
    *("sagemaker:ListModelPackageGroups", "sagemaker:ListModelPackages"),
    *("pricing:GetProducts", "ecr:GetAuthorizationToken", "cloudwatch:PutMetricData"),
    *("s3:GetAccountPublicAccessBlock", "logs:DescribeLogGroups"),
}
DOCUMENTS = sorted(path.stem for path in POLICIES.glob("*.json") if path.stem not in ("calls", "reasons"))


def refused(role: str, document: dict[str, Any]) -> list[Call]:
    return [call for call in recorded()[role] if not allows(document, call)]


@pytest.mark.parametrize("role", ROLES)
def test_each_call_that_was_recorded_is_allowed(role: str) -> None:
    assert len(recorded()[role]) > 5
    assert refused(role, policy(role)) == []


@pytest.mark.parametrize("role", ROLES)
def test_nothing_else_is_allowed(role: str) -> None:
    assert unseen(policy(role), recorded()[role], REASONS[role]) == []


@pytest.mark.parametrize("role", ROLES)
def test_no_reason_is_left_over(role: str) -> None:
    named = {action for action, _ in granted(policy(role))} | {one["Sid"] for one in policy(role)["Statement"]}
    assert set(REASONS[role]) <= named
    assert not {call.action for call in recorded()[role]} & set(REASONS[role]), "it was recorded: no reason is needed"


@pytest.mark.parametrize("role", ROLES)
def test_a_policy_without_any_one_of_its_actions_refuses_a_recorded_call(role: str) -> None:
    whole, needed = policy(role), {call.action for call in recorded()[role]}
    for number, statement in enumerate(whole["Statement"]):
        for action in set(statement["Action"]) & needed:
            less = copy.deepcopy(whole)
            less["Statement"][number]["Action"].remove(action)
            assert refused(role, less), f"{statement['Sid']} allows {action} twice, or for nothing"


@pytest.mark.parametrize(
    "more",
    [
        {"Action": ["s3:*"]},
        {"Action": ["s3:DeleteBucket"]},
        {"Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::elsewhere/*"]},
        {"Action": ["sagemaker:CreateEndpoint"], "Resource": ["arn:aws:sagemaker:eu-west-1:123456789012:endpoint/*"]},
    ],
)
@pytest.mark.parametrize("role", ROLES)
def test_a_policy_that_allows_more_is_found_out(role: str, more: dict[str, Any]) -> None:
    wider = policy(role)
    wider["Statement"].append({"Sid": "More", "Effect": "Allow", "Resource": ["*"], **more})
    assert unseen(wider, recorded()[role], REASONS[role])


@pytest.mark.parametrize("role", ROLES)
def test_a_recorded_call_on_something_elses_is_refused(role: str) -> None:
    for call in recorded()[role]:
        if call.resource != "*":
            elsewhere = call.resource.replace("leeway", "other").replace("123456789012", "210987654321")
            if elsewhere != call.resource:
                assert not allows(policy(role), Call(call.action, elsewhere)), call


def test_the_jobs_role_is_handed_to_sagemaker_only() -> None:
    role = "arn:aws:iam::123456789012:role/leeway-job"
    for service, allowed in (("sagemaker.amazonaws.com", True), ("ec2.amazonaws.com", False)):
        assert allows(policy("airflow"), Call("iam:PassRole", role, {"iam:PassedToService": service})) is allowed
    admin = Call("iam:PassRole", f"{role}-admin", {"iam:PassedToService": "sagemaker.amazonaws.com"})
    assert not allows(policy("airflow"), admin)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_wildcard_where_an_action_or_a_resource_can_be_named(name: str) -> None:
    for action, resource in granted(policy_or_trust(name)):
        if (name, action) == ("key", "kms:*"):  # a key's policy: the account's own IAM decides
            continue
        assert "*" not in action, f"{name}: {action}"
        if name != "key":  # of a key's policy the resource is that key
            assert resource != "*" or action in ANYWHERE, f"{name}: {action} on everything"


def policy_or_trust(name: str) -> dict[str, Any]:
    """The document; who may assume a role is of no resource."""
    document = policy(name)
    for one in document["Statement"]:
        one.setdefault("Resource", [])
    return document


@pytest.mark.parametrize(("encrypted", "version", "denied"), [("false", "1.3", True), ("true", "1.3", False)])
def test_buckets_are_reached_by_tls_only(encrypted: str, version: str, denied: bool) -> None:
    document = policy("bucket")
    tls = next(one for one in document["Statement"] if one["Sid"] == "TlsOnly")
    tls["Action"] = [tls["Action"]] if isinstance(tls["Action"], str) else tls["Action"]
    asked = Call("s3:GetObject", "arn:aws:s3:::leeway/x", {"aws:SecureTransport": encrypted})
    everyone = {"Sid": "All", "Effect": "Allow", "Action": ["*"], "Resource": ["*"]}
    assert allows({"Statement": [tls, everyone]}, asked) is not denied


@pytest.mark.parametrize("name", ["key", "news"])
def test_eventbridge_is_let_in_as_it_comes_and_others_for_this_account_only(name: str) -> None:
    """EventBridge names no source account to SNS and KMS: where one is asked for, the mail of a failed job is lost.

    As the SNS guide has it, "Key management": the keys are not supported for EventBridge to encrypted topics.
    """
    told = [one for one in policy(name)["Statement"] if "Service" in one["Principal"]]
    events = [one for one in told if "events.amazonaws.com" in one["Principal"]["Service"]]
    assert [(one["Principal"]["Service"], one.get("Condition")) for one in events] == [(["events.amazonaws.com"], None)]
    assert all(one.get("Condition") for one in told if one not in events)
