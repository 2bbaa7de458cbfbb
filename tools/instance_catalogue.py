"""Write the catalogue of SageMaker's instance types from the tables of packages that are installed. No network is used.

`python tools/instance_catalogue.py --as-of YYYY-MM-DD` rewrites pipelines/instances/instances.json. The names and
uses of the types come from botocore's description of SageMaker, the figures from the copy of EC2's
DescribeInstanceTypes in moto. A figure that is not known is null. For a type that moto's copy lacks, only the uses
are written.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import botocore.loaders
import moto

FILE = Path(__file__).resolve().parents[1] / "pipelines" / "instances" / "instances.json"
USES = {
    "training": "TrainingInstanceType",
    "hosting": "ProductionVariantInstanceType",
    "processing": "ProcessingInstanceType",
    "transform": "TransformInstanceType",
}
"""Maps each use of an instance type to the list of types in botocore's description of SageMaker."""
CORRECTED_MEMORY_GIB = {"Trainium2": 96.0}
"""Memory of accelerators for which moto's copy is wrong: it says 512 GiB, the AWS Neuron documentation says 96 GiB."""
MIB_PER_GIB = 1024
"""Number of MiB in a GiB."""


def main() -> None:
    """Write the catalogue."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as-of", required=True, help="date of the tables: the release date of moto")
    FILE.write_text(format_catalogue(parser.parse_args().as_of), encoding="utf-8")


def format_catalogue(as_of: str) -> str:
    """Return the catalogue as JSON, with a line for each instance type, so that a diff shows what changed."""
    head = {
        "as_of": as_of,
        "sources": [
            f"botocore {version('botocore')}: service description of SageMaker (names and uses)",
            f"moto {version('moto')}: copy of EC2's DescribeInstanceTypes (all figures)",
            "AWS Neuron documentation: memory of Trainium2",
        ],
    }
    rows = [f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(build_rows().items())]
    return json.dumps(head, indent=2)[:-2] + ',\n  "instances": {\n' + ",\n".join(rows) + "\n  }\n}\n"


def build_rows() -> dict[str, dict[str, Any]]:
    """Return the figures of each instance type of SageMaker."""
    shapes = botocore.loaders.Loader().load_service_model("sagemaker", "service-2")["shapes"]
    table_file = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
    machines = json.loads(gzip.decompress(table_file.read_bytes()))
    uses: dict[str, list[str]] = {}
    for use, shape in USES.items():
        for name in shapes[shape]["enum"]:
            uses.setdefault(name, []).append(use)
    return {name: build_row(uses[name], machines.get(name.removeprefix("ml."))) for name in uses}


def build_row(uses: list[str], machine: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the figures of an instance type; without EC2's description, only its uses are known."""
    if machine is None:
        return {"uses": uses}
    baseline, peak = read_network(machine["NetworkInfo"])
    return {
        "uses": uses,
        "vcpus": machine["VCpuInfo"]["DefaultVCpus"],
        "memory_gib": machine["MemoryInfo"]["SizeInMiB"] / MIB_PER_GIB,
        **read_accelerators(machine),
        "network_gbit_s": baseline,
        "network_peak_gbit_s": peak,
        "efa_interfaces": machine["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        "disk_gb": machine.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        "architecture": machine["ProcessorInfo"]["SupportedArchitectures"][0],
        "has_ec2_spot": "spot" in machine["SupportedUsageClasses"],
    }


def read_network(network: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the sustained and the highest bandwidth of the network, Gbit/s.

    EC2's text "4x 100 Gigabit" gives both. It counts even if the sum of the cards' bandwidths differs from it, as for
    some types with several cards. "Up to 25 Gigabit" gives only the highest bandwidth, of a burst, and a text such as
    "High" gives neither. In these two cases, the sustained bandwidth is the sum over the cards. None: not known.
    """
    text = str(network["NetworkPerformance"])
    match = re.fullmatch(r"(Up to )?(?:(\d+)x )?([\d.]+) Gigabit", text)
    cards = [card.get("BaselineBandwidthInGbps") for card in network["NetworkCards"]]
    baseline = None if None in cards else float(sum(cards))
    if match is None:
        return baseline, None
    peak = int(match[2] or 1) * float(match[3])
    return (baseline if match[1] else peak), peak


def read_accelerators(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name and number of the accelerators of an instance, and the memory of one of them, GiB."""
    devices = [
        *machine.get("GpuInfo", {}).get("Gpus", []),
        *(
            machine.get("NeuronInfo", {}).get("NeuronDevices", [])
            or machine.get("InferenceAcceleratorInfo", {}).get("Accelerators", [])
        ),
    ]
    if not devices:
        return {"accelerator": None, "accelerators": 0, "accelerator_memory_gib": None}
    device, name = devices[0], devices[0]["Name"]
    return {
        "accelerator": name,
        "accelerators": sum(entry["Count"] for entry in devices),
        "accelerator_memory_gib": CORRECTED_MEMORY_GIB.get(name, device["MemoryInfo"]["SizeInMiB"] / MIB_PER_GIB),
    }


if __name__ == "__main__":
    main()
