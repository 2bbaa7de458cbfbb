import math
from collections.abc import Mapping
from typing import Any

import pytest

from pipelines.errors import DataError
from pipelines.gates import Policy, judge, passed, words

GOOD = {"rows": 10_000, "auc": 0.7, "ece": 0.02, "log_loss": 0.45, "baseline_log_loss": 0.5}
CHAMPION = {**GOOD, "auc": 0.702}


def verdict(champion: Mapping[str, float] | None = None, policy: Policy | None = None, **changed: Any) -> bool:
    return passed(judge({**GOOD, **changed}, champion, policy or Policy()))


def test_a_good_candidate_passes_with_and_without_a_champion() -> None:
    assert verdict()
    assert verdict(CHAMPION)


@pytest.mark.parametrize(
    ("changed", "check"),
    [
        ({"rows": 4_999}, "rows of holdout"),
        ({"auc": 0.599}, "AUC"),
        ({"auc": 0.801}, "AUC, leakage"),
        ({"ece": 0.101}, "calibration error"),
        ({"log_loss": 0.501}, "log loss against the base rate's"),
        ({"auc": 0.6969}, "AUC against the champion's"),
    ],
)
def test_each_check_alone_refuses(changed: dict[str, float], check: str) -> None:
    checks = judge({**GOOD, **changed}, CHAMPION, Policy())
    failed = [one for one in checks if not one.passed]
    assert check in [one.check for one in failed]
    assert not passed(checks)
    assert "but" in words(checks)
    assert check in words(checks)


def test_bounds_are_included() -> None:
    assert verdict(rows=5_000, auc=0.60, ece=0.10, log_loss=0.5)
    assert verdict(auc=0.80)
    assert verdict({**GOOD, "auc": 0.705}, auc=0.70)


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("value", [math.nan, None])
def test_what_is_not_a_number_never_passes(name: str, value: float | None) -> None:
    checks = judge({**GOOD, name: value}, None, Policy())  # type: ignore[dict-item]
    assert not passed(checks)
    # A verdict is JSON that can be read again.
    for one in checks:
        assert type(one).model_validate_json(one.model_dump_json()) == one


def test_a_champion_whose_auc_is_no_number_is_no_bound_to_pass() -> None:
    assert not verdict({**GOOD, "auc": math.nan})


@pytest.mark.parametrize("name", GOOD)
def test_a_metric_that_is_missing_is_bad_data(name: str) -> None:
    with pytest.raises(DataError, match=name):
        judge({key: value for key, value in GOOD.items() if key != name}, None, Policy())


def test_no_checks_is_no() -> None:
    assert not passed([])


def test_infinite_is_refused() -> None:
    assert not verdict(log_loss=math.inf)
    assert not verdict(auc=math.inf)
    assert not verdict(ece=math.inf)


@pytest.mark.parametrize(("days", "yes"), [(31, True), (0, True), (-1, False), (None, True)])
def test_a_candidate_of_an_earlier_moment_than_the_champions_is_refused(days: int | None, yes: bool) -> None:
    checks = judge(GOOD, None, Policy(), days)
    assert passed(checks) is yes
    assert ("newer" in words(checks)) is not yes
