"""The loopback addresses of a job's hosts, and how scripts find them by name."""

import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

NAMES_FOLDER = Path(__file__).parent / "host_names"
"""Folder of the `sitecustomize` that gives Python scripts the names of the hosts."""


def choose_addresses(arn: str, hosts: Sequence[str]) -> dict[str, str]:
    """Return the address of each host of a job, by name.

    They are computed from the job's ARN, so that concurrent jobs seldom share addresses. 127.0.*.* is left
    out, because other programs use it. Only Linux has all of 127.0.0.0/8; elsewhere, the hosts share one address.
    """
    if sys.platform != "linux":
        return dict.fromkeys(hosts, "127.0.0.1")
    block = zlib.crc32(arn.encode()) % (254 * 254)
    return {host: f"127.{block // 254 + 1}.{block % 254 + 1}.{number}" for number, host in enumerate(hosts, 1)}


def build_name_variables(host: str, addresses: Mapping[str, str], python_path: str) -> dict[str, str]:
    """Return the variables that let Python scripts find the hosts by name.

    They are needed where a host has no /etc/hosts of its own.

    Args:
        host: Name of the host that gets the variables.
        addresses: Addresses of all hosts, by name.
        python_path: PYTHONPATH of the script; "" if it has none.
    """
    # `host_names.sitecustomize` reads the host's own name from the first pair.
    own_first = {host: addresses[host], **addresses}
    return {
        "DRYDOCK_HOSTS": " ".join(f"{name}={address}" for name, address in own_first.items()),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(NAMES_FOLDER), python_path])),
    }
