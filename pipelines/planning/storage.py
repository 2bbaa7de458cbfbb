"""Estimate the throughput that storage needs so that the devices of a training do not wait."""

from __future__ import annotations

from pipelines.planning.sizes import MAX_DEVICES, MAX_GB_S, require_positive, require_share

MAX_DATA_GB = 1e12
"""Largest size of data, GB of 10^9 bytes."""


def compute_needed_throughput_gb_s(
    devices: int, batch: float, sample_bytes: float, step_s: float, use: float = 1.0
) -> float:
    """Return the throughput that keeps devices busy, GB/s: `devices * batch * sample_bytes * use / step_s`.

    Source: MLPerf Storage. Its accelerators read a batch in the time of a step, and must compute for at least 90 % of
    the time (accelerator utilization, AU). Nothing is cached: each sample is read from the storage once an epoch.

    Args:
        devices: number of devices of all instances.
        batch: samples of a step on one device.
        sample_bytes: mean size of a sample as it is stored.
        step_s: seconds of a step that never waits for data.
        use: share of the time in which a device should compute, above 0 and at most 1; 1: it never waits.

    Raises:
        SpecError: a number is out of its range. A retry cannot help.
    """
    require_positive("devices", devices, MAX_DEVICES)
    for name, value in {"batch": batch, "sample_bytes": sample_bytes, "step_s": step_s}.items():
        require_positive(name, value, 1e15)
    require_share("use", use, is_zero_allowed=False)
    throughput_gb_s = devices * batch * sample_bytes * use / step_s / 1e9
    require_positive("throughput", throughput_gb_s)  # it overflows if a step takes hardly any time
    return throughput_gb_s


def compute_data_wait_share(needed_gb_s: float, available_gb_s: float) -> float:
    """Return the share of its time that a training waits for data: `1 - available / needed`; 0 if there is enough.

    The ledger has the measured share as `data_wait_share`. The formula assumes prefetching: the training reads and
    computes at the same time, so the slower of both decides how long a step takes.

    Args:
        needed_gb_s: throughput that keeps the devices always busy.
        available_gb_s: throughput of the storage.

    Raises:
        SpecError: a number is not positive, or is too large. A retry cannot help.
    """
    require_positive("needed_gb_s", needed_gb_s)
    require_positive("available_gb_s", available_gb_s, MAX_GB_S)
    return max(0.0, 1 - available_gb_s / needed_gb_s)


def estimate_download_s(data_gb: float, available_gb_s: float) -> float:
    """Return the seconds to copy all data to the disks of the instances before the training starts.

    Args:
        data_gb: size of what all instances copy together, GB of 10^9 bytes.
        available_gb_s: throughput of the storage.

    Raises:
        SpecError: a number is not positive, or is too large. A retry cannot help.
    """
    require_positive("data_gb", data_gb, MAX_DATA_GB)
    require_positive("available_gb_s", available_gb_s, MAX_GB_S)
    return data_gb / available_gb_s
