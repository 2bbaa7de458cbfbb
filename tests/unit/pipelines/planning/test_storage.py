"""Test the throughput of storage with the workloads of MLPerf Storage."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipelines.errors import SpecError
from pipelines.planning.storage import compute_data_wait_share, compute_needed_throughput_gb_s, estimate_download_s

UNET_3D = {"batch": 7, "sample_bytes": 146_600_628, "step_s": 0.323}
"""3D U-Net on an H100, of MLPerf Storage (unet3d_h100), where a device shall compute in 90 % of the time."""


def test_unet_3d() -> None:
    """An H100 reads 2.86 GB/s so that it computes in 90 % of its time, and eight of them 22.9."""
    assert compute_needed_throughput_gb_s(1, **UNET_3D, use=0.9) == pytest.approx(2.86, abs=0.01)
    assert compute_needed_throughput_gb_s(8, **UNET_3D, use=0.9) == pytest.approx(22.9, abs=0.05)


def test_too_slow_storage() -> None:
    """With 90 % of the throughput, devices wait in 10 % of their time: MLPerf's limit."""
    needed = compute_needed_throughput_gb_s(8, **UNET_3D)
    assert compute_data_wait_share(needed, 0.9 * needed) == pytest.approx(0.1)
    assert compute_data_wait_share(needed, 2 * needed) == 0


def test_wait_is_that_of_a_simulated_loader() -> None:
    """A loader that reads the next batch while a step runs: the step waits for what is not read."""
    step_s, batch_bytes, throughput = 0.3, 1e9, 2e9
    clock, ready, waited = 0.0, 0.0, 0.0
    for _ in range(1000):
        ready = max(ready, clock - step_s) + batch_bytes / throughput
        waited += max(0.0, ready - clock)
        clock = max(clock, ready) + step_s
    needed = compute_needed_throughput_gb_s(1, 1, batch_bytes, step_s)
    assert waited / clock == pytest.approx(compute_data_wait_share(needed, throughput / 1e9), rel=0.01)


def test_download() -> None:
    assert estimate_download_s(500, 2.5) == 200


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: compute_needed_throughput_gb_s(0, 1, 1, 1), "devices must be a positive number, not 0."),
        (lambda: compute_needed_throughput_gb_s(1, -1, 1, 1), "batch must be a positive number, not -1."),
        (lambda: compute_needed_throughput_gb_s(1, 1, 1e18, 1), "sample_bytes must be at most 1e+15, not 1e+18."),
        (lambda: compute_needed_throughput_gb_s(1, 1, 1, float("nan")), "step_s must be a positive number, not nan."),
        (lambda: compute_needed_throughput_gb_s(1, 1, 1, 1, 90), "use must be at most 1, not 90."),
        (lambda: compute_data_wait_share(1, 0), "available_gb_s must be a positive number, not 0."),
        (lambda: estimate_download_s(-1, 1), "data_gb must be a positive number, not -1."),
    ],
)
def test_wrong_numbers_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        call()
    assert text in str(caught.value)
