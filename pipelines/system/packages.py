"""Find the versions of installed Python packages.

Part of the training job's bundle, so it imports the standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version


def find_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the version of each of the packages that is installed, by name."""
    versions = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
