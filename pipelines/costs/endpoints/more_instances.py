"""Describe larger or more instances for an endpoint's variant, with their extra cost in a year."""

from __future__ import annotations

import math
from typing import Literal

from pipelines.costs.charges import format_usd
from pipelines.costs.endpoints.variant_evidence import VariantEvidence
from pipelines.costs.usage.fitting_types import LARGER_FACTOR, find_larger_type
from pipelines.costs.usage.other_types import list_other_types
from pipelines.costs.usage.task_jobs import YEAR_DAYS


def describe_larger_type(evidence: VariantEvidence, resource: Literal["memory", "cpu"]) -> str:
    """Describe the cheapest type with clearly more of a resource, its price, and the difference in a year.

    If there is no such type with a known price, return the advice to take a type with more.
    """
    types = list_other_types(evidence.fleet.instance_type, evidence.fleet.region, "hosting")
    other = find_larger_type(types, evidence.size, resource)
    if other is None:
        return "take an instance type with more"
    difference_usd = (other.usd_h - other.present_usd_h) * evidence.mean_count * 24 * YEAR_DAYS
    word = "more" if difference_usd >= 0 else "less"
    instances = "one instance" if evidence.mean_count == 1 else f"{evidence.mean_count:.3g} instances"
    return (
        f"{other.describe()} has more, at {other.describe_price()}, {format_usd(abs(difference_usd))} {word} a year "
        f"for {instances}"
    )


def describe_more_instances(evidence: VariantEvidence) -> str:
    """Describe more instances, by the factor `LARGER_FACTOR`, and their extra cost in a year.

    If the number is scaled automatically, describe a lower target value of the scaling policy instead.
    """
    if evidence.is_scaled:
        return (
            "a lower target value of its scaling policy, or a larger maximum if that is reached, adds instances earlier"
        )
    count = math.ceil(LARGER_FACTOR * evidence.count)
    usd_h = (count - evidence.count) * evidence.rows[-1]["price_usd_h"]
    return f"{count} instances in place of {evidence.count} cost {format_usd(usd_h * 24 * YEAR_DAYS)} more a year"
