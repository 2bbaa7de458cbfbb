"""Test the catalogue of instance types: figures from AWS's pages, unknown figures, retired and unknown types."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from pipelines.costs.price_sources.price_tables import DEFAULT_TABLE, read_table
from pipelines.errors import SpecError
from pipelines.instances.catalogue import (
    FILE,
    RETIRED,
    Size,
    find_instance,
    find_size,
    list_instances,
    read_date,
    read_sources,
)
from tools.instance_catalogue import build_rows, format_catalogue, read_network


@pytest.mark.parametrize(
    ("name", "vcpus", "memory", "gpus", "gpu_memory", "network", "link"),
    [
        # https://aws.amazon.com/ec2/instance-types/: p4, p5, g5, m5, trn1.
        ("ml.p4d.24xlarge", 96, 1152, (8, "A100"), 40, 400, 600),
        ("ml.p5.48xlarge", 192, 2048, (8, "H100"), 80, 3200, 900),
        ("ml.g5.xlarge", 4, 16, (1, "A10G"), 22.35, 2.5, None),
        ("ml.g5.48xlarge", 192, 768, (8, "A10G"), 22.35, 100, None),
        ("ml.m5.2xlarge", 8, 32, (0, None), None, 2.5, None),
        ("ml.trn1.32xlarge", 128, 512, (16, "Trainium"), 32, 800, None),
        ("ml.inf2.48xlarge", 192, 768, (12, "Inferentia2"), 32, 100, None),
    ],
)
def test_figures(name, vcpus, memory, gpus, gpu_memory, network, link) -> None:
    instance = find_instance(name)
    assert (instance.vcpus, instance.memory_gib, instance.network_gbit_s, instance.link_gb_s) == (
        vcpus,
        memory,
        network,
        link,
    )
    assert (instance.accelerators, instance.accelerator) == gpus
    assert instance.accelerator_memory_gib == (None if gpu_memory is None else pytest.approx(gpu_memory, abs=0.01))


def test_uses() -> None:
    assert find_instance("ml.p4d.24xlarge").uses == ("training", "hosting")
    assert "training" not in find_instance("ml.inf2.xlarge").uses
    names = {instance.name for instance in list_instances("training", ["ml.g5.*", "ml.trn1.2xlarge", "ml.inf2.xlarge"])}
    assert "ml.trn1.2xlarge" in names and "ml.g5.xlarge" in names and "ml.inf2.xlarge" not in names


def test_peaks_of_accelerators() -> None:
    h100, t4 = find_instance("ml.p5.48xlarge").device, find_instance("ml.g4dn.xlarge").device
    assert h100 and h100.flops == 989e12 and h100.bandwidth_gb_s == 3350 and h100.has_bf16
    assert t4 and t4.flops == 65e12 and not t4.has_bf16
    trainium = find_instance("ml.trn2.48xlarge").device
    assert trainium and trainium.is_neuron and trainium.flops == 667e12
    assert find_instance("ml.m5.large").device is None
    assert (h100.fp32_flops, t4.fp32_flops, trainium.fp32_flops) == (67e12, 8.1e12, 181e12)


def test_what_is_not_known_is_none() -> None:
    unknown = find_instance("ml.dl1.24xlarge")
    assert (unknown.vcpus, unknown.accelerators, unknown.is_known) == (None, None, False)
    assert unknown.describe() == "size not known"
    device = find_instance("ml.g7.2xlarge").device
    assert device and device.flops is None and device.source == "not known"


def test_every_accelerator_of_the_table_has_an_entry() -> None:
    from pipelines.instances.accelerators import ACCELERATORS

    assert {instance.accelerator for instance in list_instances()} - {None} <= ACCELERATORS.keys()


def test_fp32_is_slower_than_16_bits() -> None:
    from pipelines.instances.accelerators import ACCELERATORS

    ratios = {name: entry.flops / entry.fp32_flops for name, entry in ACCELERATORS.items() if entry.fp32_flops}
    assert len(ratios) == 13 and min(ratios.values()) >= 2 and max(ratios.values()) <= 30


@pytest.mark.parametrize(("name", "successor"), sorted(RETIRED.items()))
def test_retired_types_are_refused_with_their_successor(name: str, successor: str) -> None:
    with pytest.raises(SpecError, match=f"{name} is retired") as error:
        find_instance(name)
    assert error.value.hint == f"Use {successor}."
    find_instance(successor)
    assert name not in {instance.name for instance in list_instances()}
    assert name in json.loads(FILE.read_text())["instances"], "SageMaker's API no longer names it"


@pytest.mark.parametrize(
    ("name", "hint"), [("ml.g5.xlage", "ml.g5.xlarge"), ("g5.xlarge", "ml.g5.xlarge"), ("?", "An example")]
)
def test_an_unknown_type_is_one_clear_line(name: str, hint: str) -> None:
    with pytest.raises(SpecError, match="is not an instance type of SageMaker") as error:
        find_instance(name)
    assert hint in error.value.hint


def test_patterns_that_match_nothing_are_refused() -> None:
    with pytest.raises(SpecError, match=r"ml.p3.2xlarge is retired"):
        list_instances("training", ["ml.p3.*"])
    with pytest.raises(SpecError, match=r"'ml\.g99\.\*' is not an instance type"):
        list_instances("training", ["ml.g99.*"])
    with pytest.raises(SpecError, match="use must be one of"):
        list_instances("cooking")


def test_the_file_is_what_the_tool_writes() -> None:
    table = json.loads(FILE.read_text())
    written = json.loads(format_catalogue(table["as_of"]))
    assert written["instances"] == build_rows()
    # Another botocore may name more types; those of the file stay as the tool writes them.
    assert table["instances"].items() <= written["instances"].items() or table["sources"] != written["sources"]
    assert dt.date(2026, 1, 1) < read_date() <= dt.date.today() and len(read_sources()) == 3


@pytest.mark.parametrize(
    ("text", "cards", "expected"),
    [
        ("Up to 25 Gigabit", [10.0], (10, 25)),
        ("4x 100 Gigabit", [100.0] * 4, (400, 400)),
        ("400 Gigabit", [400.0] * 4, (400, 400)),
        ("Moderate", [0.5], (0.5, None)),
        ("Moderate", [None], (None, None)),
    ],
)
def test_network_of_ec2s_description(text: str, cards: list[float | None], expected: tuple[float, float]) -> None:
    network = {"NetworkPerformance": text, "NetworkCards": [{"BaselineBandwidthInGbps": card} for card in cards]}
    assert read_network(network) == expected


def test_every_type_with_a_price_is_in_the_catalogue() -> None:
    for group in read_table(DEFAULT_TABLE).prices:
        for name in group.usd_per_hour:
            assert name in RETIRED or find_instance(name).is_known


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ml.m5.2xlarge", Size("m5", 8, 32, 0, False)),
        ("ml.g5.12xlarge", Size("g5", 48, 192, 4, True)),
        ("ml.trn1.2xlarge", Size("trn1", 8, 32, 0, True)),  # Trainium is no GPU
        ("ml.p3.2xlarge", None),
        ("ml.dl1.24xlarge", None),
        ("m5.large", None),
        ("", None),
    ],
)
def test_size_of_a_job_is_that_of_the_table_or_none(name: str, expected: Size | None) -> None:
    assert find_size(name) == expected
