"""Find out whether a packaged model is used with other versions of Python and of packages than those it requires."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

REQUIREMENTS = "requirements.txt"
"""File of a package that lists the required Python packages."""


def list_version_differences(package: Path, required_python: str | None) -> list[str]:
    """List what a packaged model requires and this environment lacks, one text for each difference.

    `mlflow.pyfunc.load_model` could compare the versions, too. But to do so, MLflow 3.17 lists the files of all
    installed packages, which takes half a second in each process.

    Args:
        package: folder of the package.
        required_python: version of Python that the package requires, of which only major and minor version are
            compared; None if it requires none.
    """
    python = platform.python_version()
    is_other_python = required_python and required_python.split(".")[:2] != python.split(".")[:2]
    differences = [f"Python {required_python} (here: {python})"] if is_other_python else []
    return [*differences, *_compare_packages(package / REQUIREMENTS)]


def _compare_packages(requirements: Path) -> Iterator[str]:
    for line in requirements.read_text().splitlines() if requirements.exists() else []:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:  # a comment, an option or a file: nothing to compare
            continue
        if requirement.marker and not requirement.marker.evaluate():
            continue
        installed_version = _find_installed_version(requirement.name)
        if not installed_version or not requirement.specifier.contains(installed_version, prereleases=True):
            yield f"{line.strip()} (here: {installed_version or 'not installed'})"


def _find_installed_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
