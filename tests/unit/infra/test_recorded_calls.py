"""Test that a new AWS call fails a test, where one is made and where one is written, until the policies allow it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from tests.tools.iam import POLICIES
from tests.tools.recorded_calls import list_new_calls, read_recorded_calls

ROOT = Path(__file__).parents[3]
REASONS = json.loads((POLICIES / "reasons.json").read_text())
SERVICES = ("sagemaker", "s3", "logs", "pricing", "batch")
"""Services that the code calls by itself, and not only through libraries."""
OTHER_METHODS = {"search", "create_experiment", "list_artifacts"}
"""Methods of other objects (regular expressions, MLflow) that are named like an operation of SageMaker."""
IAM_ACTIONS = {
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:ListObjects": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:CopyObject": "s3:PutObject",
    "s3:UploadPart": "s3:PutObject",
    "s3:DeleteObjects": "s3:DeleteObject",
}
"""Operations whose permission has another name."""
ALLOWED_TO_ALL = {"sts:GetCallerIdentity"}
"""Operations that IAM allows without a policy."""


def write_calls(path: Path, *calls: tuple[str, str, str]) -> Path:
    path.write_text("".join(json.dumps(call) + "\n" for call in calls))
    return path


def test_a_recorded_call_is_not_new(tmp_path: Path) -> None:
    assert list_new_calls(tmp_path / "missing") == []
    assert list_new_calls(write_calls(tmp_path / "calls", *read_recorded_calls())) == []


@pytest.mark.parametrize(
    "call",
    [
        ("airflow", "sagemaker:CreateDomain", "arn:aws:sagemaker:REGION:ACCOUNT:domain/NAME"),
        ("airflow", "s3:DeleteBucket", "arn:aws:s3:::leeway"),
        ("job", "s3:GetObject", "arn:aws:s3:::leeway/x"),
        ("job", "sagemaker:CreateTrainingJob", "arn:aws:sagemaker:REGION:ACCOUNT:training-job/NAME"),
    ],
)
def test_another_call_is_new(tmp_path: Path, call: tuple[str, str, str]) -> None:
    role, action, resource = call
    file = write_calls(tmp_path / "calls", *read_recorded_calls(), call)
    assert list_new_calls(file) == [f"{role}: {action} on {resource}"]


def test_calls_on_other_buckets_and_incomplete_lines_are_left_out(tmp_path: Path) -> None:
    file = write_calls(tmp_path / "calls", ("airflow", "s3:DeleteObject", "arn:aws:s3:::another/x"))
    file.write_text(file.read_text() + '["airflow", "sagemaker:Del')
    assert list_new_calls(file) == []


def list_operations() -> dict[str, set[str]]:
    """Return the services' actions, SERVICE:OPERATION, by the name of boto3's method."""
    session, operations = botocore.session.get_session(), dict[str, set[str]]()
    for service in SERVICES:
        for name in session.get_service_model(service).operation_names:
            operations.setdefault(xform_name(name), set()).add(f"{service}:{name}")
    return {name: actions for name, actions in operations.items() if name not in OTHER_METHODS}


MODELS = {
    "sagemaker": ("sagemaker", "sagemaker-runtime", "sagemaker-featurestore-runtime"),
    **{
        name: (name,)
        for name in ("application-autoscaling", "batch", "cloudwatch", "ec2", "glue", "logs", "s3", "secretsmanager")
    },
}
"""Prefix of IAM's actions to botocore's models of the service."""


def describe_problem(action: str, resource: str) -> str:
    """Return what is wrong with a call by botocore's model of the service; empty if it can be made."""
    service, _, operation = action.partition(":")
    if service == "s3" and action in IAM_ACTIONS.values():
        return ""
    session = botocore.session.get_session()
    models = [session.get_service_model(name) for name in MODELS.get(service, ())]
    model = next((model for model in models if operation in model.operation_names), None)
    if model is None:
        return f"{service} has no operation {operation}"
    kind = resource.rpartition(":")[2].partition("/")[0]
    if service != "sagemaker" or resource == "*":
        return ""
    name = "".join(word.capitalize() for word in kind.split("-"))
    members = set(list_members(model.operation_model(operation).input_shape))
    return "" if members & {f"{name}Name", f"{name}Arn", "ResourceArn"} else f"{operation} names no {kind}"


def list_members(shape: Any, depth: int = 3) -> Iterator[str]:
    """Yield the names of a request's members, with those of its lists and structures."""
    for name, member in getattr(shape, "members", {}).items():
        yield name
        if depth:
            yield from list_members(getattr(member, "member", member), depth - 1)


def test_each_recorded_call_is_one_that_the_service_has() -> None:
    """So an entry that was written by hand cannot name an operation or a resource that does not exist."""
    calls = sorted(read_recorded_calls())
    assert {f"{action} on {resource}": describe_problem(action, resource) for _, action, resource in calls} == {
        f"{action} on {resource}": "" for _, action, resource in calls
    }


@pytest.mark.parametrize(
    ("action", "resource", "problem"),
    [
        ("sagemaker:DescribeTrainJob", "arn:aws:sagemaker:REGION:ACCOUNT:training-job/NAME", "has no operation"),
        ("sagemaker:StopTransformJob", "arn:aws:sagemaker:REGION:ACCOUNT:training-job/NAME", "names no training-job"),
        ("logs:ReadLogEvents", "*", "logs has no operation ReadLogEvents"),
        ("s3:ListObjects", "arn:aws:s3:::leeway", ""),
        ("s3:ReadObject", "arn:aws:s3:::leeway/x", "s3 has no operation ReadObject"),
        ("ses:SendEmail", "*", "ses has no operation SendEmail"),
    ],
)
def test_call_that_the_service_does_not_have_is_found(action: str, resource: str, problem: str) -> None:
    found = describe_problem(action, resource)
    assert problem in found and bool(found) is bool(problem)


def list_called_actions(source: str, operations: dict[str, set[str]]) -> Iterator[set[str]]:
    """Yield, for each place in the source that may call AWS, the actions that it may call.

    Such a place is an attribute, client.describe_x, called or passed on, or a text "describe_x", as a paginator takes
    it. The client is not known, so a name that several services have gives several actions.
    """
    for node in ast.walk(ast.parse(source)):
        name = node.attr if isinstance(node, ast.Attribute) else node.value if isinstance(node, ast.Constant) else None
        if isinstance(name, str) and name in operations:
            yield operations[name]


def find_unrecorded(source: str, operations: dict[str, set[str]]) -> list[str]:
    """List the calls of the source of which no action was recorded, and none has a reason to be allowed without."""
    known = {action for _, action, _ in read_recorded_calls()} | set(REASONS["airflow"]) | set(REASONS["job"])
    known |= ALLOWED_TO_ALL
    called = list_called_actions(source, operations)
    return [
        " or ".join(sorted(actions))
        for actions in called
        if not {IAM_ACTIONS.get(action, action) for action in actions} & known and not actions & known
    ]


def test_the_code_has_no_call_that_was_not_recorded() -> None:
    """The code that runs with a role of Airflow or of a job. Calls that libraries make are recorded, not written."""
    operations, unrecorded = list_operations(), dict[str, list[str]]()
    for path in [
        *(ROOT / "plugins").rglob("*.py"),
        *(ROOT / "pipelines").rglob("*.py"),
        *(ROOT / "dags").rglob("*.py"),
    ]:
        if calls := find_unrecorded(path.read_text(), operations):
            unrecorded[str(path.relative_to(ROOT))] = calls
    assert unrecorded == {}, "record the calls (python tools/record_calls.py), and allow them in infra/policies"


@pytest.mark.parametrize(
    "source",
    [
        "hook.conn.create_domain(DomainName=name)",
        "client.delete_domain(DomainId=name)",
        'client.get_paginator("list_domains").paginate()',
        'boto3.client("s3").put_bucket_acl(Bucket=name)',
    ],
)
def test_the_search_finds_a_new_call(source: str) -> None:
    assert find_unrecorded(source, list_operations())


def test_the_search_finds_the_calls_of_the_code() -> None:
    operations, texts = list_operations(), [path.read_text() for path in (ROOT / "plugins").rglob("*.py")]
    actions = {action for text in texts for called in list_called_actions(text, operations) for action in called}
    assert {"sagemaker:UpdateModelPackage", "sagemaker:ListModelPackages", "logs:GetLogEvents"} & actions
