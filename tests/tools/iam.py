"""Decide whether a policy allows a call, as IAM does.

The module knows only what this project's policies use: Allow and Deny, wildcards in actions and resources, and a few
conditions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

POLICIES = Path(__file__).resolve().parents[2] / "infra" / "policies"
VARIABLES = {
    **{"account": "123456789012", "region": "eu-west-1", "bucket": "leeway", "lake": "leeway-lake", "source": "mwaa"},
    **{"environment": "leeway-airflow", "key_arn": "arn:aws:kms:eu-west-1:123456789012:key/k"},
    **{"job_role_arn": "arn:aws:iam::123456789012:role/leeway-job", "topic_arn": "arn:aws:sns:x:123456789012:news"},
}
"""Values of the policies' variables, which Terraform sets for an account."""


@dataclass(frozen=True)
class Call:
    """A call to an AWS service.

    Args:
        action: the action as IAM names it.
        resource: ARN of the resource.
        context: keys and values that conditions compare.
    """

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)


def load_policy(name: str) -> dict[str, Any]:
    """Return the policy document infra/policies/NAME.json with its variables replaced by `VARIABLES`."""
    return dict(json.loads(Template((POLICIES / f"{name}.json").read_text()).substitute(VARIABLES)))


def load_calls() -> dict[str, list[Call]]:
    """Return the calls that tools/record_calls.py recorded, by role."""
    calls: dict[str, list[Call]] = {"airflow": [], "job": []}
    for entry in json.loads((POLICIES / "calls.json").read_text()):
        resource = entry["resource"].replace("REGION", VARIABLES["region"]).replace("ACCOUNT", VARIABLES["account"])
        calls[entry["role"]].append(Call(entry["action"], resource))
    return calls


def find_statements(document: Mapping[str, Any], call: Call) -> list[dict[str, Any]]:
    """Return the statements that match the call."""
    return [statement for statement in document["Statement"] if _matches(statement, call)]


def is_allowed(document: Mapping[str, Any], call: Call) -> bool:
    """Return whether the policy allows the call: a statement allows it, and no statement denies it."""
    effects = {statement["Effect"] for statement in find_statements(document, call)}
    return effects == {"Allow"}


def _matches(statement: Mapping[str, Any], call: Call) -> bool:
    return (
        any(_matches_pattern(call.action.lower(), action.lower()) for action in statement["Action"])
        and any(_matches_pattern(call.resource, resource) for resource in statement["Resource"])
        and all(
            _is_condition_met(operator, patterns, call) for operator, patterns in statement.get("Condition", {}).items()
        )
    )


def _is_condition_met(operator: str, patterns: Mapping[str, Any], call: Call) -> bool:
    if operator not in ("StringEquals", "StringLike", "Bool"):
        raise ValueError(f"the condition {operator} is not supported")
    return all(_matches_pattern(call.context.get(key, ""), pattern) for key, pattern in patterns.items())


def _matches_pattern(text: str, pattern: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), text) is not None


def list_grants(document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield each action that the policy allows, with each of its resources."""
    for statement in document["Statement"]:
        if statement["Effect"] == "Allow":
            yield from ((action, resource) for action in statement["Action"] for resource in statement["Resource"])


def find_unneeded_grants(document: Mapping[str, Any], calls: Iterable[Call], reasons: Mapping[str, str]) -> list[str]:
    """List the actions and the resources that the policy allows, that no call needed, and that have no reason.

    Args:
        document: policy document.
        calls: the recorded calls.
        reasons: why an action or a statement is allowed without a recorded call, by action or Sid.
    """
    calls, unneeded_grants = list(calls), []
    for statement in document["Statement"]:
        if statement["Effect"] != "Allow":
            continue
        matching_calls = [call for call in calls if _matches(statement, call)]
        called_actions = {call.action for call in matching_calls}
        justified_actions = [action for action in statement["Action"] if action in reasons]
        unneeded_grants += [
            action for action in statement["Action"] if action not in reasons and action not in called_actions
        ]
        is_justified = len(justified_actions) == len(statement["Action"]) or statement["Sid"] in reasons
        resources = [] if is_justified else statement["Resource"]
        unneeded_grants += [
            resource
            for resource in resources
            if not any(_matches_pattern(call.resource, resource) for call in matching_calls)
        ]
    return unneeded_grants
