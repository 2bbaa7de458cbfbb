"""Test each limit of a training: which options it leaves out, what would help, and which risks it names."""

from dataclasses import replace
from typing import Any

import pytest

from pipelines.planning.recommendation.checks import apply_limits
from pipelines.planning.recommendation.limits import Limits
from pipelines.planning.recommendation.options import Exclusion, Option

DAY_S = 86_400
OPTION = Option(
    instance_type="ml.m5.xlarge",
    count=2,
    region="us-east-1",
    market="spot",
    seconds=3_600,
    low_s=3_000,
    high_s=5_400,
    uncorrected_s=3_600,
    wait_s=600,
    cost_usd=0.2,
    high_usd=0.3,
    uncorrected_usd=0.2,
    price_usd_h=0.5,
    price_date="2026-10-01",
    price_source="test",
)


def apply(limits: Limits, *options: Option) -> Any:
    return apply_limits(limits, options or [OPTION], "ml.m5.xlarge", "us-east-1")


@pytest.mark.parametrize(
    ("limits", "fields", "kind", "text"),
    [
        (
            {},
            {"seconds": 29 * DAY_S},
            "run",
            "takes 29.0 d or more of training, and SageMaker stops it after 28.0 d: would fit with a faster "
            "type or more instances (1.1 times as fast), or as several jobs that resume from the checkpoints of the "
            "one before",
        ),
        (
            {"max_run_s": 1_800},
            {},
            "run",
            "takes 1.0 h or more of training, and max_run_s stops it after 30.0 min: would fit with max_run_s=3600",
        ),
        (
            {"max_run_s": 1_800},
            {"seconds": 29 * DAY_S},
            "run",
            "takes 29.0 d or more of training, and SageMaker stops it after 28.0 d",
        ),
        (
            {"max_run_s": 3_600, "max_wait_s": 4_000},
            {},
            "run",
            "takes 1.2 h or more with the usual wait, over max_wait_s of 4000: would fit with max_wait_s=4200",
        ),
        ({"deadline_s": 4_199}, {}, "deadline", "takes 1.2 h or more, past the deadline"),
        ({"budget_usd": 0.19}, {}, "budget", "costs 0.2000 USD or more, over the budget"),
        (
            {"budget_usd": 0.19, "deadline_s": 5_000},
            {},
            "budget",
            "costs 0.2000 USD or more within the deadline, over the budget",
        ),
        (
            {"budget_usd": 1.5, "max_run_s": 7_200},
            {},
            "budget",
            "costs 2.00 USD at worst (max_run_s of 7200 at the price on demand), over the budget: would fit with "
            "budget_usd=2.00 or max_run_s=5400",
        ),
        (
            {"budget_usd": 0.5, "max_run_s": 7_200},
            {},
            "budget",
            "costs 2.00 USD at worst (max_run_s of 7200 at the price on demand), over the budget: would fit with "
            "budget_usd=2.00",
        ),
    ],
)
def test_what_is_beyond_a_limit_is_left_out(
    limits: dict[str, Any], fields: dict[str, Any], kind: str, text: str
) -> None:
    exclusion = apply(Limits(**limits), replace(OPTION, **fields))
    assert isinstance(exclusion, Exclusion) and exclusion.nearest
    assert exclusion.kind == kind and exclusion.reason.startswith(text), exclusion.reason


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"max_run_s": 3_600},
        {"max_wait_s": 4_200},
        {"deadline_s": 4_200},
        {"budget_usd": 0.2},
        {"budget_usd": 2.0, "max_run_s": 7_200},
    ],
)
def test_what_is_just_within_a_limit_is_kept(limits: dict[str, Any]) -> None:
    assert not isinstance(apply(Limits(**limits)), Exclusion)
    larger = replace(OPTION, seconds=4_300, cost_usd=0.3)
    is_longer_allowed = not limits or limits.get("max_run_s") == 7_200
    assert isinstance(apply(Limits(**limits), larger), Exclusion) != is_longer_allowed
    assert not isinstance(apply(Limits(), replace(OPTION, seconds=28 * DAY_S)), Exclusion)


def test_a_job_on_demand_has_no_longest_wait() -> None:
    assert not isinstance(apply(Limits(max_wait_s=4_000), replace(OPTION, market="on demand")), Exclusion)


def test_the_budget_of_the_operator_and_that_of_the_choice_are_the_same() -> None:
    price = 0.1 + 0.2  # 0.30000000000000004: the operator's check has a tolerance for it
    limits = Limits(budget_usd=0.6, max_run_s=3_600)
    assert not isinstance(apply(limits, replace(OPTION, price_usd_h=price)), Exclusion)


def test_the_nearest_option_is_the_one_that_meets_most_limits() -> None:
    slow, fast = replace(OPTION, count=1, seconds=9_000, cost_usd=0.1), replace(OPTION, cost_usd=0.4)
    exclusion = apply(Limits(deadline_s=5_000, budget_usd=0.3), slow, fast)
    assert isinstance(exclusion, Exclusion) and (exclusion.kind, exclusion.nearest) == ("budget", fast)
    assert apply(Limits(deadline_s=5_000), slow, fast) == [
        replace(fast, risks=("may take 1.7 h, past the deadline",), has_limit_risk=True)
    ]


def test_risks() -> None:
    limits = Limits(deadline_s=5_000, budget_usd=2.0, max_run_s=4_000, max_wait_s=5_000)
    dear = replace(OPTION, wait_s=None, high_usd=3.0)
    (option,) = apply(limits, dear)
    assert option.risks == (
        "may take 1.5 h of training, and max_run_s stops it after 1.1 h",
        "may take 1.5 h with its wait, and max_wait_s stops it after 1.4 h",
        "may take 1.5 h, past the deadline",
        "may cost 3.00 USD, over the budget",
        "how long the job waits for instances is not known",
    )
    (endless,) = apply(Limits(), replace(OPTION, high_s=30 * DAY_S))
    assert endless.risks == ("may take 30.0 d of training, and SageMaker stops it after 28.0 d",)
    assert apply(Limits()) == [OPTION]
