"""Test the sizes of instance types."""

import pytest

from pipelines.costs.usage.instance_sizes import parse_instance_size


@pytest.mark.parametrize(
    ("name", "cores", "memory"),
    [
        ("ml.t3.medium", 2, 1),
        ("ml.m5.large", 2, 2),
        ("ml.m5.xlarge", 4, 4),
        ("ml.c5.9xlarge", 36, 36),
        ("ml.p4d.24xlarge", 96, 96),
    ],
)
def test_size_follows_from_the_name(name, cores, memory):
    size = parse_instance_size(name)
    assert (size.family, size.cores, size.memory) == (name.split(".")[1], cores, memory)


@pytest.mark.parametrize("name", ["", "ml.m5", "m5.large", "ml.m5.metal", "ml.m5.0.5xlarge", "ml.m5.large.x"])
def test_other_names_have_no_size(name):
    assert parse_instance_size(name) is None


def test_families_with_accelerators_are_known():
    names = ("ml.g5.xlarge", "ml.g4dn.xlarge", "ml.p3.2xlarge", "ml.trn1.2xlarge", "ml.inf2.xlarge")
    assert all(parse_instance_size(name).is_accelerated for name in names)
    assert not any(parse_instance_size(name).is_accelerated for name in ("ml.m5.large", "ml.t3.medium", "ml.m6g.large"))
