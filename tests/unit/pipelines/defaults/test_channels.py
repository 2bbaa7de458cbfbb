"""Test that a job on several hosts gets all channels on each host."""

import json

import pytest

from pipelines.container.hosts import Hosts
from pipelines.defaults.channels import InvalidInput, check_distribution


@pytest.mark.parametrize(
    ("count", "distribution"), [(2, "ShardedByS3Key"), (1, "ShardedByS3Key"), (2, "FullyReplicated")]
)
def test_a_channel_that_s3_divides_is_refused(monkeypatch: pytest.MonkeyPatch, count: int, distribution: str) -> None:
    config = {"train": {"S3DistributionType": distribution}, "validation": {}}
    monkeypatch.setenv("SM_INPUT_DATA_CONFIG", json.dumps(config))
    hosts = Hosts([f"algo-{number}" for number in range(count)], "algo-0", "job")
    if (count, distribution) != (2, "ShardedByS3Key"):
        check_distribution(hosts)
        return
    with pytest.raises(InvalidInput, match=r"^the channel train is ShardedByS3Key, and has one object for 2 hosts"):
        check_distribution(hosts)


def test_without_sagemakers_variables_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SM_INPUT_DATA_CONFIG", raising=False)
    check_distribution(Hosts(["a", "b"], "a", "job"))
