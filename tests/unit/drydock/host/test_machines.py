"""Test the cores and memory of an instance type."""

import pytest

from drydock.host.machines import MachineSize, parse_instance_type


@pytest.mark.parametrize(
    ("instance_type", "cores", "gib"),
    [
        ("ml.m5.large", 2, 8),
        ("ml.m5.2xlarge", 8, 32),
        ("ml.c5.xlarge", 4, 8),
        ("ml.r5.24xlarge", 96, 768),
        ("ml.t3.medium", 2, 4),
        ("ml.m7i.metal", 96, 384),
        ("local", 2, 8),
        ("", 2, 8),
    ],
)
def test_reads_the_size_from_the_types_name(instance_type: str, cores: int, gib: int) -> None:
    assert parse_instance_type(instance_type) == MachineSize(cores, gib * 1024)


def test_sizes_fit_and_add_up() -> None:
    machine = MachineSize(4, 1000)
    assert MachineSize(4, 1000).fits_in(machine)
    assert not MachineSize(5, 1).fits_in(machine) and not MachineSize(1, 1001).fits_in(machine)
    assert (MachineSize(2, 400) * 3).limit_to(machine) == machine
    assert machine - MachineSize(1, 100) + MachineSize(1, 100) == machine
