"""What an instance type needs."""

import pytest

from drydock.host.machines import Need, need_of


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
def test_a_types_name_says_what_it_has(instance_type: str, cores: int, gib: int) -> None:
    assert need_of(instance_type) == Need(cores, gib * 1024)


def test_what_fits_and_what_does_not() -> None:
    machine = Need(4, 1000)
    assert Need(4, 1000).fits(machine)
    assert not Need(5, 1).fits(machine) and not Need(1, 1001).fits(machine)
    assert (Need(2, 400) * 3).within(machine) == machine
    assert machine - Need(1, 100) + Need(1, 100) == machine
