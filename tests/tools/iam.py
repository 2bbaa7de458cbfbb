"""What IAM says to a call, of what its policies here use: Allow and Deny, wildcards in resources, a few conditions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

POLICIES = Path(__file__).resolve().parents[2] / "infra" / "policies"
NAMES = {
    **{"account": "123456789012", "region": "eu-west-1", "bucket": "leeway", "lake": "leeway-lake", "source": "mwaa"},
    **{"environment": "leeway-airflow", "key_arn": "arn:aws:kms:eu-west-1:123456789012:key/k"},
    **{"job_role_arn": "arn:aws:iam::123456789012:role/leeway-job", "topic_arn": "arn:aws:sns:x:123456789012:news"},
}
"""What the tests give for what the policies leave open, as Terraform does for an account."""


@dataclass(frozen=True)
class Call:
    """A call: the action as IAM names it, the ARN, and what conditions look at."""

    action: str
    resource: str
    about: Mapping[str, str] = field(default_factory=dict)


def policy(name: str) -> dict[str, Any]:
    """The policy document infra/policies/NAME.json with the names of the tests."""
    return dict(json.loads(Template((POLICIES / f"{name}.json").read_text()).substitute(NAMES)))


def recorded() -> dict[str, list[Call]]:
    """The calls that tools/record_calls.py noted, by role."""
    found: dict[str, list[Call]] = {"airflow": [], "job": []}
    for one in json.loads((POLICIES / "calls.json").read_text()):
        resource = one["resource"].replace("REGION", NAMES["region"]).replace("ACCOUNT", NAMES["account"])
        found[one["role"]].append(Call(one["action"], resource))
    return found


def statements(document: Mapping[str, Any], call: Call) -> list[dict[str, Any]]:
    """The statements that speak of the call."""
    return [one for one in document["Statement"] if _speaks(one, call)]


def allows(document: Mapping[str, Any], call: Call) -> bool:
    """Whether the policy allows the call: something does, and nothing denies it."""
    effects = {one["Effect"] for one in statements(document, call)}
    return effects == {"Allow"}


def _speaks(statement: Mapping[str, Any], call: Call) -> bool:
    return (
        any(_like(call.action.lower(), one.lower()) for one in statement["Action"])
        and any(_like(call.resource, one) for one in statement["Resource"])
        and all(_holds(kind, wanted, call) for kind, wanted in statement.get("Condition", {}).items())
    )


def _holds(kind: str, wanted: Mapping[str, Any], call: Call) -> bool:
    if kind not in ("StringEquals", "StringLike", "Bool"):
        raise ValueError(f"the condition {kind} is not known here")
    return all(_like(call.about.get(key, ""), pattern) for key, pattern in wanted.items())


def _like(text: str, pattern: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), text) is not None


def granted(document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Each action with each resource that the policy allows it on."""
    for one in document["Statement"]:
        if one["Effect"] == "Allow":
            yield from ((action, resource) for action in one["Action"] for resource in one["Resource"])


def unseen(document: Mapping[str, Any], calls: Iterable[Call], reasons: Mapping[str, str]) -> list[str]:
    """What the policy allows, and no call needed, and no reason is given for: each action, and each resource."""
    calls, found = list(calls), []
    for one in document["Statement"]:
        if one["Effect"] != "Allow":
            continue
        made = [call for call in calls if _speaks(one, call)]
        excused = [action for action in one["Action"] if action in reasons]
        found += [
            action for action in one["Action"] if action not in reasons and action not in {m.action for m in made}
        ]
        needs = [] if len(excused) == len(one["Action"]) or one["Sid"] in reasons else one["Resource"]
        found += [place for place in needs if not any(_like(call.resource, place) for call in made)]
    return found
