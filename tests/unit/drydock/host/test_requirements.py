"""Test the check of requirements.txt against the installed packages."""

import os
from pathlib import Path

import pytest

from drydock.errors import RunFailed
from drydock.host.requirements import check_requirements, find_unmet_requirements


def check(folder: Path, text: str) -> list[str]:
    (folder / "requirements.txt").write_text(text)
    return find_unmet_requirements(folder / "requirements.txt")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n\n   \n",
        "pytest",
        "PyTest>=8 # why\n",
        "\ufeffpytest\r\nPyYAML>=1\r\n",
        "pytest[extra-that-is-not]>=1",
        "no-such-package; python_version < '3'",
        "no-such-package; sys_platform == 'win32'",
        "pytest \\\n  >= 1, \\\n  < 1000",
        "pyyaml>=1\nPyYAML<1000",
    ],
)
def test_accepts_requirements_that_are_met(tmp_path: Path, text: str) -> None:
    assert check(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("pytest>=1000", "installed: "),
        ("no-such-package", "not installed"),
        ("no-such-package; python_version > '3'", "not installed"),
        ("-r other.txt", "options are not supported"),
        ("--index-url https://example.invalid", "options are not supported"),
        ("pytest>=1 --hash=sha256:0", "options are not supported"),
        ("pytest @ https://example.invalid/it.whl#sha256=0", "a URL cannot be checked"),
        ("./local", "not a requirement"),
        ("git+https://example.invalid/it.git", "not a requirement"),
        ("pytest >== 3", "not a requirement"),
    ],
)
def test_reports_requirements_that_are_not_met(tmp_path: Path, text: str, reason: str) -> None:
    assert reason in check(tmp_path, f"pytest\n{text}\n")[0]
    assert len(check(tmp_path, f"pytest\n{text}\npyyaml")) == 1


def test_long_lines_are_cut(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes(b"\xff\xfe" + b"x" * 10_000)
    (line,) = find_unmet_requirements(tmp_path / "requirements.txt")
    assert len(line) < 200


def test_a_package_that_was_just_installed_counts_and_so_does_a_pre_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(str(packages))
    assert check(tmp_path, "Early_Bird>=1.5") == ["Early_Bird>=1.5 (not installed)"]
    folder = packages / "early_bird-2.0rc1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: early-bird\nVersion: 2.0rc1\n")
    os.utime(packages, (0, 0))  # the clock of a file system may not tell two changes apart that follow at once
    assert check(tmp_path, "Early_Bird>=1.5") == []
    assert check(tmp_path, "early-bird>=2.0") == ["early-bird>=2.0 (installed: 2.0rc1)"]


def test_a_file_that_cannot_be_read_fails_the_job_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").mkdir()
    with pytest.raises(RunFailed, match=r"ClientError: requirements\.txt cannot be checked: Is a directory"):
        check_requirements(tmp_path / "requirements.txt")
