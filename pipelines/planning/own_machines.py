"""Compare the cost of owned machines with that of cloud instances: payback time, and break-even utilization."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.errors import SpecError
from pipelines.planning.checkpoints import MONTH_H
from pipelines.planning.sizes import MAX_USD_PER_H, require_not_negative, require_positive, require_share

MAX_PUE = 10
"""Largest power usage effectiveness; most buildings have 1.1 to 2."""
MAX_USD = 1e12
"""Largest amount: more than any machine costs."""


@dataclass(frozen=True)
class OwnMachine:
    """The costs of an owned machine.

    Attributes:
        price_usd: price of the machine with network equipment and installation, USD.
        lifetime_months: months until it is replaced.
        power_kw: its power when it is used, kW.
        idle_kw: its power when it is idle, kW.
        pue: power usage effectiveness: power of the building / power of its machines, at least 1 (ISO/IEC 30134-2).
        usd_per_kwh: price of electricity, USD per kWh.
        staff_usd_month: share of salaries for its operation, USD a month.
        hosting_usd_month: rent of the space, internet access and maintenance, USD a month.
        resale_usd: price at which it is sold after its lifetime.

    Raises:
        SpecError: a number is out of its range.
    """

    price_usd: float
    lifetime_months: float
    power_kw: float
    idle_kw: float = 0.0
    pue: float = 1.0
    usd_per_kwh: float = 0.0
    staff_usd_month: float = 0.0
    hosting_usd_month: float = 0.0
    resale_usd: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        require_positive("price_usd", self.price_usd, MAX_USD)
        require_positive("lifetime_months", self.lifetime_months, 600)
        require_positive("power_kw", self.power_kw, 1e6)
        for name in ("idle_kw", "usd_per_kwh", "staff_usd_month", "hosting_usd_month", "resale_usd"):
            require_not_negative(name, getattr(self, name), MAX_USD)
        if not 1 <= self.pue <= MAX_PUE:
            raise SpecError(
                f"pue must be at least 1 and at most {MAX_PUE}, not {self.pue}.",
                "It is the power of the building / the machines.",
            )
        if self.idle_kw > self.power_kw:
            raise SpecError(f"idle_kw ({self.idle_kw:g}) must be at most power_kw ({self.power_kw:g}).")
        if self.resale_usd > self.price_usd:
            raise SpecError(f"resale_usd ({self.resale_usd:g}) must be at most price_usd ({self.price_usd:g}).")


def compute_running_usd_month(machine: OwnMachine, use: float) -> float:
    """Return what the operation of a machine costs in a month, USD, without its price.

    It is `730 * pue * usd_per_kwh * (use * power_kw + (1 - use) * idle_kw) + staff_usd_month + hosting_usd_month`.
    Source: the running costs of Barroso et al. 2018 (The Datacenter as a Computer), chapter 6; PUE by ISO/IEC 30134-2.

    Args:
        machine: the machine.
        use: utilization: share of the hours in which it computes, 0 to 1.

    Raises:
        SpecError: `use` is not a share. A retry cannot help.
    """
    require_share("use", use)
    power_kw = use * machine.power_kw + (1 - use) * machine.idle_kw
    return MONTH_H * machine.pue * machine.usd_per_kwh * power_kw + machine.staff_usd_month + machine.hosting_usd_month


def compute_own_usd_month(machine: OwnMachine, use: float) -> float:
    """Return what a machine costs in a month of its lifetime, USD: `(price - resale) / lifetime + running costs`.

    Raises:
        SpecError: `use` is not a share. A retry cannot help.
    """
    capital_usd = (machine.price_usd - machine.resale_usd) / machine.lifetime_months
    return capital_usd + compute_running_usd_month(machine, use)


def compute_cloud_usd_month(cloud_usd_per_h: float, use: float) -> float:
    """Return what the same hours cost in the cloud in a month, USD: `730 * use * price`. Idle hours cost nothing.

    Args:
        cloud_usd_per_h: price of the instances that do the same work in the same time, USD an hour.
        use: utilization: share of the hours in which they compute, 0 to 1.

    Raises:
        SpecError: a number is out of its range. A retry cannot help.
    """
    require_positive("cloud_usd_per_h", cloud_usd_per_h, MAX_USD_PER_H)
    require_share("use", use)
    return MONTH_H * use * cloud_usd_per_h


def compute_payback_months(machine: OwnMachine, cloud_usd_per_h: float, use: float) -> float | None:
    """Return the months until a machine has cost no more than the cloud: `price / (cloud - running costs)`.

    None if the running costs alone are not less than the cost of the cloud. Interest and resale are not counted, and
    the result may be longer than the lifetime.

    Raises:
        SpecError: a number is out of its range. A retry cannot help.
    """
    saving_usd = compute_cloud_usd_month(cloud_usd_per_h, use) - compute_running_usd_month(machine, use)
    return machine.price_usd / saving_usd if saving_usd > 0 else None


def compute_break_even_use(machine: OwnMachine, cloud_usd_per_h: float) -> float | None:
    """Return the utilization at which a machine costs the same as the cloud over its lifetime; None if it never does.

    Both costs are linear in the utilization: `own at 0 / (730 * price - (own at 1 - own at 0))`.

    Raises:
        SpecError: the price is not positive. A retry cannot help.
    """
    unused_usd, used_usd = compute_own_usd_month(machine, 0), compute_own_usd_month(machine, 1)
    # How much more the cost of the cloud grows than that of the machine, from a utilization of 0 to 1.
    slope_usd = compute_cloud_usd_month(cloud_usd_per_h, 1) - (used_usd - unused_usd)
    use = unused_usd / slope_usd if slope_usd > 0 else 2  # 2: never, because a utilization is at most 1
    return use if use <= 1 else None
