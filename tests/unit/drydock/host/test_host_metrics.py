"""Test the measurement of a host: which metrics it has, and in percent of what."""

from pathlib import Path
from typing import Any

import pytest

from drydock.host import host_metrics
from drydock.host.gpu import GpuUsage
from drydock.host.host_metrics import HostMeter
from drydock.host.usage import Usage

MIB = 2**20


class Host:
    """A running host that uses a core and half of the memory that it has here."""

    usage: Usage | None = Usage(100.0, 50.0)

    def measure_usage(self) -> Usage | None:
        return self.usage

    def list_process_ids(self) -> list[int]:
        return [1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of 64 MiB, and let each host use GPUs whose memory is not reported."""
    (tmp_path / "model").write_bytes(b"x" * 64 * MIB)
    monkeypatch.setattr(host_metrics, "measure_gpus", lambda pids: GpuUsage(80.0, None) if pids == [1] else None)
    return tmp_path


def measure(folder: Path, volume_gib: int = 1, host: Any = None, is_slow_sample: bool = True, **sizes: int) -> Any:
    meter = HostMeter(sizes.get("instance_mib", 8192), sizes.get("machine_mib", 16384), volume_gib)
    return meter.measure(host or Host(), folder, is_slow_sample=is_slow_sample)


def test_disk_is_in_percent_of_the_volume_and_what_is_not_reported_is_left_out(folder: Path) -> None:
    values = dict(measure(folder))
    assert values.pop("DiskUtilization") == pytest.approx(100 / 16, rel=0.01)
    assert values == {"CPUUtilization": 100.0, "MemoryUtilization": 50.0, "GPUUtilization": 80.0}


def test_disk_is_not_known_without_a_size_of_the_volume(folder: Path) -> None:
    assert "DiskUtilization" not in measure(folder, volume_gib=0)


def test_disk_and_gpus_are_measured_only_where_they_are_due(folder: Path) -> None:
    assert set(measure(folder, is_slow_sample=False)) == {"CPUUtilization", "MemoryUtilization"}


@pytest.mark.parametrize(("machine_mib", "percent"), [(8192, 50.0), (2048, 12.5), (65536, 50.0)])
def test_memory_is_in_percent_of_the_instances_memory(folder: Path, machine_mib: int, percent: float) -> None:
    """A host has at most this machine's memory here, so half of 2 GiB are an eighth of the instance's 8 GiB."""
    assert measure(folder, machine_mib=machine_mib)["MemoryUtilization"] == percent


def test_host_that_has_just_started_has_no_metrics(folder: Path) -> None:
    host = Host()
    host.usage = None
    assert measure(folder, host=host) == {}
