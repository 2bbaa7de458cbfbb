"""Test the numbers of GPUs against AWS's own list, which moto has."""

import gzip
import json
from pathlib import Path

import moto

from pipelines.costs.usage.gpu_counts import COUNTS, find_gpu_count


def test_numbers_are_those_of_aws():
    with gzip.open(Path(moto.__file__).parent / "ec2/resources/instance_types.json.gz") as file:
        types = json.load(file)
    known = {name: find_gpu_count(f"ml.{name}") for name in types}
    for name in (name for name, count in known.items() if count):
        assert known[name] == sum(gpu["Count"] for gpu in types[name]["GpuInfo"]["Gpus"]), name
    assert len([count for count in known.values() if count]) > len(COUNTS), "families with one GPU are known"
    assert find_gpu_count("ml.m5.large") is None and find_gpu_count("") is None
