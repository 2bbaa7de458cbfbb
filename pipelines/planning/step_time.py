"""Estimate the time of a training step on several devices: computation, and all-reduce over the network."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.planning.sizes import (
    MAX_DEVICES,
    require_choice,
    require_not_negative,
    require_positive,
    require_share,
)

NETWORK_SHARE = 0.8
"""Share of the network's bandwidth that an all-reduce reaches. A guess: nccl-tests measures it."""
BACKWARD_SHARE = 2 / 3
"""Share of the computation during which gradients can be sent: the backward pass has 4 of 6 operations."""
PASSES = {0: 2, 1: 2, 2: 2, 3: 3}
"""Maps each ZeRO stage to how often the values pass the network in a step: once in a reduce-scatter, once in an
all-gather; with stage 3, the weights are gathered twice, for the forward and the backward pass."""


@dataclass(frozen=True)
class StepTime:
    """Seconds of a training step.

    Attributes:
        computation_s: time of the computation.
        communication_s: time of the all-reduce, if nothing else ran.
        total_s: time of the step.
    """

    computation_s: float
    communication_s: float
    total_s: float

    @property
    def efficiency(self) -> float:
        """Scaling efficiency: the computation's share of the step. 1 if it overlaps all of the communication."""
        return self.computation_s / self.total_s


def compute_ring_traffic(size_bytes: float, members: int, stage: int = 0) -> float:
    """Return the bytes that each member of a ring sends in a step: `passes * (n - 1) / n * size`.

    Source: Patarasuk and Yuan 2009 (Bandwidth optimal all-reduce algorithms); nccl-tests, doc/PERFORMANCE.md, has the
    same factor for an all-reduce. There are 2 passes, and 3 with ZeRO stage 3: Rajbhandari et al. 2020, section 7.

    Args:
        size_bytes: bytes of the gradients: parameters that are trained, times 2 for 16-bit values.
        members: number of members of the ring: devices or, if the devices of an instance first reduce among themselves,
            instances.
        stage: ZeRO stage, 0 to 3.

    Raises:
        SpecError: a number is not positive, or the stage is unknown. A retry cannot help.
    """
    require_positive("size_bytes", size_bytes)
    require_positive("members", members, MAX_DEVICES)
    require_choice("stage", stage, PASSES)
    return PASSES[stage] * (members - 1) / members * size_bytes


def estimate_communication_s(
    size_bytes: float, members: int, bandwidth_gb_s: float, stage: int = 0, latency_s: float = 0.0
) -> float:
    """Return the seconds of a ring all-reduce: traffic / bandwidth, and a latency for each of its hops.

    Source: Patarasuk and Yuan 2009: a pass around the ring has `n - 1` hops.

    Args:
        size_bytes: bytes of the gradients.
        members: members of the ring.
        bandwidth_gb_s: what a member can send in a second, GB of 10^9 bytes. 100 Gbit/s are 12.5.
        stage: ZeRO stage, 0 to 3.
        latency_s: seconds of a hop.

    Raises:
        SpecError: a number is out of its range. A retry cannot help.
    """
    require_positive("bandwidth_gb_s", bandwidth_gb_s)
    require_not_negative("latency_s", latency_s)
    traffic = compute_ring_traffic(size_bytes, members, stage)
    return traffic / (bandwidth_gb_s * 1e9) + PASSES[stage] * (members - 1) * latency_s


def estimate_step(computation_s: float, communication_s: float, overlap: float = BACKWARD_SHARE) -> StepTime:
    """Return the time of a step: `computation + max(0, communication - overlap * computation)`.

    With an overlap of 0, the step is the sum of both; with 1, the larger one. The default is the backward pass, in
    which DistributedDataParallel sends gradients as they come (Li et al. 2020, section 3.2.3).

    Args:
        computation_s: seconds of the computation of a step.
        communication_s: seconds of its communication.
        overlap: share of the computation during which the network may send, 0 to 1.

    Raises:
        SpecError: a number is out of its range. A retry cannot help.
    """
    require_positive("computation_s", computation_s)
    require_not_negative("communication_s", communication_s)
    require_share("overlap", overlap)
    waiting_s = max(0.0, communication_s - overlap * computation_s)
    return StepTime(computation_s, communication_s, computation_s + waiting_s)


def compute_needed_bandwidth_gb_s(
    size_bytes: float,
    members: int,
    computation_s: float,
    *,
    efficiency: float = 0.9,
    overlap: float = BACKWARD_SHARE,
    stage: int = 0,
) -> float:
    """Return the bandwidth that a member needs for a scaling efficiency, GB/s.

    It is `traffic / (computation * (overlap + 1 / efficiency - 1))`.

    Source: `estimate_step`, solved for the bandwidth, without the latency. 0 if there is only one member.

    Args:
        size_bytes: bytes of the gradients.
        members: members of the ring.
        computation_s: seconds of the computation of a step.
        efficiency: scaling efficiency that is wanted, above 0 and at most 1.
        overlap: share of the computation during which the network may send, 0 to 1.
        stage: ZeRO stage, 0 to 3.

    Raises:
        SpecError: a number is out of its range, or efficiency is 1 and overlap 0. A retry cannot help.
    """
    require_positive("computation_s", computation_s)
    require_share("efficiency", efficiency, is_zero_allowed=False)
    require_share("overlap", overlap)
    seconds = computation_s * (overlap + 1 / efficiency - 1)
    require_positive("time for the communication", seconds)
    return compute_ring_traffic(size_bytes, members, stage) / seconds / 1e9
