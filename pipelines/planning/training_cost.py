"""Estimate time and cost of a training: on demand, on spot with interruptions, and with a savings plan."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.errors import SpecError
from pipelines.planning.checkpoints import InterruptedRun, compute_mean_time_s, estimate_interrupted_run
from pipelines.planning.sizes import (
    MAX_DEVICES,
    MAX_S,
    MAX_USD_PER_H,
    require_not_negative,
    require_positive,
    require_share,
)
from pipelines.planning.step_time import BACKWARD_SHARE, StepTime, estimate_communication_s, estimate_step
from pipelines.planning.training_time import estimate_training_s


@dataclass(frozen=True)
class Cluster:
    """The instances of a training.

    Attributes:
        instances: number of instances.
        devices: number of devices of each instance.
        peak_flops: peak of a device, FLOP/s.
        network_gb_s: what an instance can send in a second, GB of 10^9 bytes; 0: the network is ignored.

    Raises:
        SpecError: a number is out of its range.
    """

    instances: int
    devices: int
    peak_flops: float
    network_gb_s: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        require_positive("instances", self.instances, MAX_DEVICES)
        require_positive("devices", self.devices, MAX_DEVICES)
        require_positive("peak_flops", self.peak_flops, 1e18)
        require_not_negative("network_gb_s", self.network_gb_s)


@dataclass(frozen=True)
class Interruptions:
    """The rate of interruptions on spot, and the training's checkpoints and restarts.

    Attributes:
        per_h: interruptions of an instance in an hour.
        interval_s: work between two saves.
        save_s: seconds that the training pauses for a save.
        restart_s: seconds of a restart on new instances, which are charged.
        wait_s: seconds until there are new instances, which are not charged.
    """

    per_h: float
    interval_s: float
    save_s: float
    restart_s: float = 0.0
    wait_s: float = 0.0


@dataclass(frozen=True)
class SpotCost:
    """The time and the cost of a training on spot.

    Attributes:
        run: time of the running instances, divided into training, saves and losses.
        elapsed_s: time from the first start to the end, with the waits for new instances after interruptions.
        cost_usd: what is charged, USD.
    """

    run: InterruptedRun
    elapsed_s: float
    cost_usd: float


def estimate_step_of_training(
    step_flops: float,
    cluster: Cluster,
    utilization: float,
    gradient_bytes: float,
    *,
    stage: int = 0,
    overlap: float = BACKWARD_SHARE,
) -> StepTime:
    """Return the time of a step on a cluster: its computation, and the all-reduce among the instances.

    `utilization` describes one instance, so it includes the interconnect of the instance's devices. The utilization
    of the whole cluster would include the network, too, which would then be counted twice.

    Args:
        step_flops: operations of a step on all devices.
        cluster: the instances.
        utilization: share of the peak that an instance reaches, above 0 and at most 1.
        gradient_bytes: bytes of the gradients.
        stage: ZeRO stage, 0 to 3.
        overlap: share of the computation during which the network may send, 0 to 1.

    Raises:
        SpecError: a number is out of its range. A retry cannot help.
    """
    computation_s = estimate_training_s(
        step_flops, cluster.peak_flops, cluster.instances * cluster.devices, utilization
    )
    communication_s = 0.0
    if cluster.network_gb_s and cluster.instances > 1:
        communication_s = estimate_communication_s(gradient_bytes, cluster.instances, cluster.network_gb_s, stage)
    return estimate_step(computation_s, communication_s, overlap)


def compute_cost_usd(hours: float, instances: int, usd_per_h: float) -> float:
    """Return the cost of instances: hours x instances x price.

    Source: docs/reference/costs.md. Storage and data transfer are not included.

    Args:
        hours: hours that the instances run.
        instances: number of instances.
        usd_per_h: price of an instance, USD an hour.

    Raises:
        SpecError: a number is not positive. A retry cannot help.
    """
    require_positive("hours", hours)
    require_positive("instances", instances, MAX_DEVICES)
    require_positive("usd_per_h", usd_per_h, MAX_USD_PER_H)
    return hours * instances * usd_per_h


def estimate_spot_cost(work_s: float, instances: int, spot_usd_per_h: float, interruptions: Interruptions) -> SpotCost:
    """Return the time and the cost of a training on spot, with the work that interruptions undo.

    Source: the time by Daly 2006 (`estimate_interrupted_run`) x instances x spot price. SageMaker charges while
    instances run, and not while a job waits for them (BillableTimeInSeconds).

    Args:
        work_s: seconds of the training without checkpoints and interruptions.
        instances: number of instances; an interruption of any of them interrupts the training.
        spot_usd_per_h: spot price of an instance, USD an hour.
        interruptions: rate of interruptions, and duration of saves, restarts and waits.

    Raises:
        SpecError: a number is out of its range, or the training would hardly advance. A retry cannot help.
    """
    mean_time_s = compute_mean_time_s(interruptions.per_h, instances)
    run = estimate_interrupted_run(
        work_s, interruptions.interval_s, interruptions.save_s, mean_time_s, interruptions.restart_s
    )
    require_not_negative("wait_s", interruptions.wait_s, MAX_S)
    cost_usd = compute_cost_usd(run.total_s / 3600, instances, spot_usd_per_h)
    return SpotCost(run, run.total_s + run.interruptions * interruptions.wait_s, cost_usd)


def compute_savings_plan_usd(on_demand_usd: float, saving: float) -> float:
    """Return the cost of the same hours with a savings plan: `on demand * (1 - saving)`, if the plan is fully used.

    Args:
        on_demand_usd: cost on demand, USD.
        saving: saving of the plan, above 0 and below 1: 0.3 is 30 %.

    Raises:
        SpecError: a number is out of its range. A retry cannot help.
    """
    require_positive("on_demand_usd", on_demand_usd)
    return on_demand_usd * compute_break_even_use(saving)  # 1 - saving


def compute_break_even_use(saving: float) -> float:
    """Return the share of its hours that a savings plan must be used to cost no more than on demand: `1 - saving`.

    Source: a commitment is paid for each hour of its term, used or not.

    Args:
        saving: saving of the plan, above 0 and below 1.

    Raises:
        SpecError: the saving is out of its range. A retry cannot help.
    """
    require_share("saving", saving, is_zero_allowed=False)
    if saving == 1:
        raise SpecError("saving must be less than 1, not 1.", "It is a share: 30 % is 0.3.")
    return 1 - saving
