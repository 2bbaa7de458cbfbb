"""Test that a job on several hosts gets all channels on each host, but for those that may be divided."""

import json

import pytest

from pipelines.container.hosts import Hosts
from pipelines.defaults.arguments import InvalidInput
from pipelines.defaults.channels import check_distribution, is_sharded


@pytest.mark.parametrize(
    ("count", "distribution", "divisible_channels"),
    [
        (2, "ShardedByS3Key", ()),
        (1, "ShardedByS3Key", ()),
        (2, "FullyReplicated", ()),
        (2, "ShardedByS3Key", ["train"]),
    ],
)
def test_a_channel_that_s3_divides_is_refused(
    monkeypatch: pytest.MonkeyPatch, count: int, distribution: str, divisible_channels: list[str]
) -> None:
    config = {"train": {"S3DistributionType": distribution}, "validation": {}}
    monkeypatch.setenv("SM_INPUT_DATA_CONFIG", json.dumps(config))
    hosts = Hosts([f"algo-{number}" for number in range(count)], "algo-0", "job")
    assert is_sharded("train") == (distribution == "ShardedByS3Key")
    if (count, distribution) != (2, "ShardedByS3Key") or divisible_channels:
        check_distribution(hosts, divisible_channels)
        return
    with pytest.raises(InvalidInput, match=r"^the channel train is ShardedByS3Key, but each of the 2 hosts needs all"):
        check_distribution(hosts, divisible_channels)


def test_without_sagemakers_variables_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SM_INPUT_DATA_CONFIG", raising=False)
    check_distribution(Hosts(["a", "b"], "a", "job"))
    assert not is_sharded("train")
