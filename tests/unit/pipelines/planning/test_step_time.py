"""Test the estimates of communication and of a step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipelines.errors import SpecError
from pipelines.planning.step_time import (
    compute_needed_bandwidth_gb_s,
    compute_ring_traffic,
    estimate_communication_s,
    estimate_step,
)


def test_traffic_of_a_ring_hardly_depends_on_its_members() -> None:
    """nccl-tests, doc/PERFORMANCE.md: an all-reduce of n ranks has the factor 2 (n - 1) / n."""
    assert [compute_ring_traffic(1e9, members) for members in (1, 2, 8)] == [0, 1e9, 1.75e9]
    assert compute_ring_traffic(1e9, 1000) < 2e9


@pytest.mark.parametrize("members", [2, 3, 5, 16])
def test_traffic_of_a_ring_by_its_steps(members: int) -> None:
    """Move the parts of a vector around a ring, as the algorithm does, and count what a member sends."""
    parts, sent = 1e9 / members, 0.0
    for _ in range(2):  # reduce-scatter, and all-gather
        for _ in range(members - 1):
            sent += parts
    assert compute_ring_traffic(1e9, members) == pytest.approx(sent)


def test_zero_stages() -> None:
    """Rajbhandari et al. 2020, section 7: stages 1 and 2 send as much as DDP, stage 3 1.5 times as much."""
    traffic = [compute_ring_traffic(1e9, 64, stage) for stage in range(4)]
    assert traffic[0] == traffic[1] == traffic[2] == traffic[3] / 1.5


def test_communication() -> None:
    """14 GB of gradients of 7B parameters, 4 instances, 400 Gbit/s: 21 GB over 50 GB/s, and 6 hops of 20 us."""
    assert estimate_communication_s(14e9, 4, 50) == pytest.approx(0.42)
    assert estimate_communication_s(14e9, 4, 50, latency_s=20e-6) == pytest.approx(0.42 + 6 * 20e-6)
    assert estimate_communication_s(14e9, 1, 50, latency_s=20e-6) == 0


def test_overlap() -> None:
    """No overlap is the sum, and a whole one the larger time; the default hides what fits into the backward pass."""
    assert estimate_step(3, 1, overlap=0).total_s == 4
    assert [estimate_step(3, other, overlap=1).total_s for other in (1, 5)] == [3, 5]
    assert [estimate_step(3, other).total_s for other in (0, 2, 2.5)] == pytest.approx([3, 3, 3.5])
    assert estimate_step(3, 1, overlap=0).efficiency == 0.75


@pytest.mark.parametrize("efficiency", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("overlap", [0.1, 2 / 3, 1.0])
def test_needed_bandwidth_reaches_the_efficiency(efficiency: float, overlap: float) -> None:
    bandwidth = compute_needed_bandwidth_gb_s(14e9, 8, 2.0, efficiency=efficiency, overlap=overlap)
    step = estimate_step(2.0, estimate_communication_s(14e9, 8, bandwidth), overlap)
    assert step.efficiency == pytest.approx(efficiency)
    slower = estimate_step(2.0, estimate_communication_s(14e9, 8, 0.9 * bandwidth), overlap)
    assert slower.efficiency < efficiency


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: compute_ring_traffic(-1, 2), "size_bytes must be a positive number, not -1."),
        (lambda: compute_ring_traffic(1, 0), "members must be a positive number, not 0."),
        (lambda: compute_ring_traffic(1, 2, 4), "stage must be one of 0, 1, 2, 3, not 4."),
        (lambda: estimate_communication_s(1, 2, 0), "bandwidth_gb_s must be a positive number, not 0."),
        (lambda: estimate_communication_s(1, 2, 1, latency_s=-1), "latency_s must be a number of at least 0, not -1."),
        (lambda: estimate_step(1, 1, 1.5), "overlap must be at most 1, not 1.5. It is a share: 30 % is 0.3."),
        (lambda: estimate_step(float("inf"), 1), "computation_s must be a positive number, not inf."),
        (lambda: compute_needed_bandwidth_gb_s(1, 2, 1, efficiency=1, overlap=0), "time for the communication must be"),
        (lambda: compute_needed_bandwidth_gb_s(1, 2, 1, efficiency=0), "efficiency must be a positive number, not 0."),
    ],
)
def test_wrong_numbers_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        call()
    assert text in str(caught.value)
