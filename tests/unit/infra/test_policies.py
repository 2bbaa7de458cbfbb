"""Test the policies of the roles: they allow each recorded call, and nothing else."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.tools.iam import POLICIES, Call, find_unneeded_grants, is_allowed, list_grants, load_calls, load_policy

ROLES = ["airflow", "job"]
REASONS = json.loads((POLICIES / "reasons.json").read_text())
ANY_RESOURCE = {
    *("sagemaker:ListTrainingJobs", "sagemaker:ListProcessingJobs", "sagemaker:ListTransformJobs"),
    *("sagemaker:ListModelPackageGroups", "sagemaker:ListModelPackages", "sagemaker:ListModels"),
    *(
        "sagemaker:ListEndpoints",
        "sagemaker:ListEndpointConfigs",
        "cloudwatch:GetMetricStatistics",
        "cloudwatch:ListMetrics",
    ),
    *("sagemaker:ListNotebookInstances", "sagemaker:ListApps", "ec2:DescribeSpotPriceHistory"),
    "application-autoscaling:DescribeScalableTargets",
    "application-autoscaling:DescribeScalingActivities",
    *("batch:DescribeJobQueues", "batch:ListServiceJobs", "batch:DescribeServiceJob"),
    *("pricing:GetProducts", "ecr:GetAuthorizationToken", "cloudwatch:PutMetricData"),
    *("s3:GetAccountPublicAccessBlock", "logs:DescribeLogGroups"),
}
"""Actions that have no resource in IAM, or none before the resource is created."""
DOCUMENTS = sorted(path.stem for path in POLICIES.glob("*.json") if path.stem not in ("calls", "reasons"))


def list_refused(role: str, document: dict[str, Any]) -> list[Call]:
    """List the recorded calls of a role that a policy does not allow."""
    return [call for call in load_calls()[role] if not is_allowed(document, call)]


@pytest.mark.parametrize("role", ROLES)
def test_policy_allows_each_recorded_call(role: str) -> None:
    assert len(load_calls()[role]) > 5
    assert list_refused(role, load_policy(role)) == []


@pytest.mark.parametrize("role", ROLES)
def test_policy_allows_nothing_else(role: str) -> None:
    assert find_unneeded_grants(load_policy(role), load_calls()[role], REASONS[role]) == []


@pytest.mark.parametrize("role", ROLES)
def test_each_reason_is_needed(role: str) -> None:
    actions = {action for action, _ in list_grants(load_policy(role))}
    ids = {statement["Sid"] for statement in load_policy(role)["Statement"]}
    assert set(REASONS[role]) <= actions | ids
    assert not {call.action for call in load_calls()[role]} & set(REASONS[role]), "a recorded call needs no reason"


@pytest.mark.parametrize("role", ROLES)
def test_policy_without_any_one_of_its_actions_refuses_a_recorded_call(role: str) -> None:
    policy, actions = load_policy(role), {call.action for call in load_calls()[role]}
    for number, statement in enumerate(policy["Statement"]):
        for action in set(statement["Action"]) & actions:
            smaller = copy.deepcopy(policy)
            smaller["Statement"][number]["Action"].remove(action)
            assert list_refused(role, smaller), f"{statement['Sid']} allows {action} twice, or for nothing"


@pytest.mark.parametrize(
    "statement",
    [
        {"Action": ["s3:*"]},
        {"Action": ["s3:DeleteBucket"]},
        {"Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::elsewhere/*"]},
        {"Action": ["sagemaker:CreateDomain"], "Resource": ["arn:aws:sagemaker:eu-west-1:123456789012:domain/*"]},
    ],
)
@pytest.mark.parametrize("role", ROLES)
def test_check_finds_a_policy_that_allows_more(role: str, statement: dict[str, Any]) -> None:
    policy = load_policy(role)
    policy["Statement"].append({"Sid": "More", "Effect": "Allow", "Resource": ["*"], **statement})
    assert find_unneeded_grants(policy, load_calls()[role], REASONS[role])


@pytest.mark.parametrize("role", ROLES)
def test_policy_refuses_a_recorded_call_on_a_foreign_resource(role: str) -> None:
    for call in load_calls()[role]:
        if call.resource != "*":
            foreign = call.resource.replace("leeway", "other").replace("123456789012", "210987654321")
            if foreign != call.resource:
                assert not is_allowed(load_policy(role), Call(call.action, foreign)), call


def test_only_sagemaker_may_take_the_job_role() -> None:
    role = "arn:aws:iam::123456789012:role/leeway-job"
    for service, expected in (("sagemaker.amazonaws.com", True), ("ec2.amazonaws.com", False)):
        call = Call("iam:PassRole", role, {"iam:PassedToService": service})
        assert is_allowed(load_policy("airflow"), call) is expected
    admin = Call("iam:PassRole", f"{role}-admin", {"iam:PassedToService": "sagemaker.amazonaws.com"})
    assert not is_allowed(load_policy("airflow"), admin)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_wildcard_stands_where_an_action_or_a_resource_can_be_named(name: str) -> None:
    for action, resource in list_grants(load_with_resources(name)):
        if (name, action) == ("key", "kms:*"):  # in a key's policy, the account's own IAM decides
            continue
        assert "*" not in action, f"{name}: {action}"
        if name != "key":  # in a key's policy, * is that key
            assert resource != "*" or action in ANY_RESOURCE, f"{name} allows {action} on every resource"


def load_with_resources(name: str) -> dict[str, Any]:
    """Return a document with a list of resources in each statement. Trust policies name no resources."""
    document = load_policy(name)
    for statement in document["Statement"]:
        statement.setdefault("Resource", [])
    return document


@pytest.mark.parametrize(("encrypted", "version", "denied"), [("false", "1.3", True), ("true", "1.3", False)])
def test_bucket_policy_denies_access_without_tls(encrypted: str, version: str, denied: bool) -> None:
    document = load_policy("bucket")
    tls = next(statement for statement in document["Statement"] if statement["Sid"] == "TlsOnly")
    tls["Action"] = [tls["Action"]] if isinstance(tls["Action"], str) else tls["Action"]
    call = Call("s3:GetObject", "arn:aws:s3:::leeway/x", {"aws:SecureTransport": encrypted})
    everyone = {"Sid": "All", "Effect": "Allow", "Action": ["*"], "Resource": ["*"]}
    assert is_allowed({"Statement": [tls, everyone]}, call) is not denied


@pytest.mark.parametrize("name", ["key", "news"])
def test_only_eventbridge_may_call_without_a_source_account(name: str) -> None:
    """EventBridge names no source account to SNS and KMS: a condition on it would lose the mail of a failed job.

    Source: SNS guide, "Key management": these condition keys are not supported for EventBridge to encrypted topics.
    """
    statements = [statement for statement in load_policy(name)["Statement"] if "Service" in statement["Principal"]]
    events = [statement for statement in statements if "events.amazonaws.com" in statement["Principal"]["Service"]]
    assert [(statement["Principal"]["Service"], statement.get("Condition")) for statement in events] == [
        (["events.amazonaws.com"], None)
    ]
    assert all(statement.get("Condition") for statement in statements if statement not in events)
