"""Test when machines of one's own cost less than the cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pipelines.errors import SpecError
from pipelines.planning.own_machines import (
    OwnMachine,
    compute_break_even_use,
    compute_cloud_usd_month,
    compute_own_usd_month,
    compute_payback_months,
    compute_running_usd_month,
)

SERVER = OwnMachine(300_000, 48, 10.2, idle_kw=2, pue=1.5, usd_per_kwh=0.15, staff_usd_month=4000)
"""8 H100 with at most 10.2 kW (data sheet of the DGX H100). Price, electricity and staff are assumptions."""
P5 = 98.32


def test_running_costs() -> None:
    """10.2 kW for 730 h at 0.15 USD and PUE 1.5: 1,675 USD, beside the staff."""
    assert compute_running_usd_month(SERVER, 1) == pytest.approx(1675.35 + 4000)
    assert compute_running_usd_month(SERVER, 0) == pytest.approx(328.5 + 4000)


def test_payback_is_where_the_sums_meet() -> None:
    """Add up both costs month by month."""
    months = compute_payback_months(SERVER, P5, 0.6)
    assert months == pytest.approx(7.9, abs=0.05)
    own_usd, cloud_usd, month = SERVER.price_usd, 0.0, 0
    while own_usd > cloud_usd:
        month += 1
        own_usd += compute_running_usd_month(SERVER, 0.6)
        cloud_usd += compute_cloud_usd_month(P5, 0.6)
    assert month - 1 < months <= month


def test_break_even_use() -> None:
    """At this use, a month of the lifetime costs the same; below it, the cloud is cheaper."""
    use = compute_break_even_use(SERVER, P5)
    assert use == pytest.approx(0.15, abs=0.005)
    assert compute_own_usd_month(SERVER, use) == pytest.approx(compute_cloud_usd_month(P5, use))
    assert compute_own_usd_month(SERVER, use / 2) > compute_cloud_usd_month(P5, use / 2)


def test_it_may_never_pay() -> None:
    assert compute_payback_months(SERVER, P5, 0.05) is None
    assert compute_break_even_use(SERVER, 5) is None
    assert compute_break_even_use(replace(SERVER, staff_usd_month=1e6), P5) is None


def test_resale_lowers_the_break_even() -> None:
    use = compute_break_even_use(replace(SERVER, resale_usd=100_000), P5)
    assert use is not None and use < 0.15


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: OwnMachine(-1, 48, 10), "price_usd must be a positive number, not -1."),
        (lambda: OwnMachine(1, 4800, 10), "lifetime_months must be at most 600, not 4800."),
        (lambda: OwnMachine(1, 48, float("nan")), "power_kw must be a positive number, not nan."),
        (lambda: OwnMachine(1, 48, 1, pue=0.5), "pue must be at least 1 and at most 10, not 0.5."),
        (lambda: OwnMachine(1, 48, 1, pue=float("inf")), "pue must be at least 1 and at most 10, not inf."),
        (lambda: OwnMachine(1, 48, 1, idle_kw=2), "idle_kw (2) must be at most power_kw (1)."),
        (lambda: OwnMachine(1, 48, 1, resale_usd=2), "resale_usd (2) must be at most price_usd (1)."),
        (lambda: OwnMachine(1, 48, 1, staff_usd_month=-5), "staff_usd_month must be a number of at least 0, not -5."),
        (lambda: compute_payback_months(SERVER, P5, 60), "use must be at most 1, not 60. It is a share"),
        (lambda: compute_break_even_use(SERVER, 0), "cloud_usd_per_h must be a positive number, not 0."),
    ],
)
def test_wrong_numbers_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        call()
    assert text in str(caught.value)
