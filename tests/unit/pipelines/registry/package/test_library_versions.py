"""Test that another version of Python or of a required package is named."""

import logging
import platform
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.registry import scorer
from pipelines.registry.package.library_versions import list_version_differences


def write_requirements(folder: Path, *lines: str) -> Path:
    (folder / "requirements.txt").write_text("\n".join(lines))
    return folder


def test_the_versions_of_this_environment_are_no_difference(tmp_path: Path) -> None:
    lines = (f"pandas=={version('pandas')}", "numpy>=1", "# a comment", "-r other.txt", "")
    package = write_requirements(tmp_path, *lines)
    assert list_version_differences(package, platform.python_version()) == []
    assert list_version_differences(tmp_path / "none", None) == []


@pytest.mark.parametrize(
    ("line", "difference"),
    [
        ("pandas==1.0.1", f"pandas==1.0.1 (here: {version('pandas')})"),
        ("no-such-package>=2", "no-such-package>=2 (here: not installed)"),
        ("no-such-package", "no-such-package (here: not installed)"),
        ('no-such-package==2; python_version < "3"', ""),
    ],
)
def test_another_version_of_a_package_is_named(tmp_path: Path, line: str, difference: str) -> None:
    assert list_version_differences(write_requirements(tmp_path, line), None) == [difference] * bool(difference)


def test_another_minor_version_of_python_is_named(tmp_path: Path) -> None:
    assert list_version_differences(tmp_path, "3.7.4") == [f"Python 3.7.4 (here: {platform.python_version()})"]
    patch_release = ".".join([*platform.python_version().split(".")[:2], "99"])
    assert list_version_differences(tmp_path, patch_release) == []


def test_the_scorer_logs_one_line(tmp_path: Path, caplog: Any) -> None:
    model_version: Any = SimpleNamespace(name="flights", version="3")
    with caplog.at_level(logging.WARNING):
        scorer._warn_of_versions(model_version, write_requirements(tmp_path, "pandas==1.0.1", "duckdb==0.1"), None)
        scorer._warn_of_versions(model_version, write_requirements(tmp_path, "pandas>=1"), None)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("flights version 3 requires other packages: pandas==1.0.1 (here: ")
