"""Test deadlines and budgets."""

import datetime as dt

import pytest

from pipelines.errors import SpecError
from pipelines.planning.recommendation.limits import Limits, format_duration, parse_budget, parse_deadline

NOW = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", None),
        ("90m", 5_400),
        ("24h", 86_400),
        ("1.5 d", 129_600),
        ("2026-11-28T13:00", 3_600),
        ("2026-11-28T13:00+01:00", None),
        ("2026-11-28", 12 * 3_600),
    ],
)
def test_deadlines(text: str, seconds: float | None) -> None:
    if text.endswith("+01:00"):
        with pytest.raises(SpecError, match="is in the past"):
            parse_deadline(text, NOW)
    else:
        parsed = parse_deadline(text, NOW)
        assert parsed == (None if seconds is None else pytest.approx(seconds, abs=1))


@pytest.mark.parametrize("text", ["2026-11-27", "0h", "2020-01-01T00:00"])
def test_a_past_deadline_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="is in the past"):
        parse_deadline(text, NOW)


@pytest.mark.parametrize("text", ["soon", "24", "-3h", "2026-13-01", "None", "nan", "\u0663h"])
def test_a_deadline_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="neither a duration nor a time"):
        parse_deadline(text, NOW)


@pytest.mark.parametrize("text", [f"{'9' * 400}h", "4000d", "9999-12-31"])
def test_a_deadline_that_is_absurdly_far_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="must be within 3,650 days"):
        Limits(parse_deadline(text, NOW))


@pytest.mark.parametrize(
    ("text", "usd"),
    [
        ("", None),
        ("500", 500),
        (" 500.25 ", 500.25),
        (".5", 0.5),
        ("1,500", 1_500),
        ("1,234,567.89", 1_234_567.89),
        ("1500 USD", 1_500),
        ("$1500", 1_500),
        ("1e3", 1_000),
        ("-5", -5),
    ],
)
def test_budgets(text: str, usd: float | None) -> None:
    assert parse_budget(text) == usd


@pytest.mark.parametrize(
    "text", ["500,00", "5,00", "1.500,00", "1,50", "1,5000", "1234,567", "0,500", ",500", "1,500,00", "1,,500"]
)
def test_a_comma_that_may_be_a_decimal_point_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"is ambiguous.*500\.00 or 1,500"):
        parse_budget(text)


@pytest.mark.parametrize("text", ["500EUR", "€500", "much", "None", "nan", "inf", "1_000", "USD", "$", "--5", "\u0665"])
def test_a_budget_that_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="is not an amount of USD"):
        parse_budget(text)


@pytest.mark.parametrize("amount", [-1.0, 0.0, float("inf"), float("nan"), 1e10])
def test_a_budget_out_of_its_range_is_refused(amount: float) -> None:
    with pytest.raises(SpecError, match="the budget must be more than 0"):
        Limits(budget_usd=amount)


@pytest.mark.parametrize(("seconds", "text"), [(59, "59 s"), (90, "1.5 min"), (90_000, "25.0 h"), (200_000, "2.3 d")])
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
