"""Test the check of requirements.txt against the installed packages."""

import sys
from pathlib import Path

import pytest

from drydock.errors import JobFailed
from drydock.host.requirements import check_requirements, find_unmet_requirements


def check(folder: Path, text: str, python: str = sys.executable) -> list[str]:
    (folder / "requirements.txt").write_text(text)
    return find_unmet_requirements(folder / "requirements.txt", python)


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


def test_checks_the_given_interpreter(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o700)
    assert check(tmp_path, "pytest") == []
    assert check(tmp_path, "pytest", str(bare)) == ["pytest (not installed)"]
    with pytest.raises(ValueError, match="cannot list the packages of false"):
        check(tmp_path, "pytest", "/bin/false")


def test_an_installed_pre_release_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "early-2.0rc1.dist-info").mkdir()
    (tmp_path / "early-2.0rc1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: early\nVersion: 2.0rc1\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert check(tmp_path, "early>=1.5") == []
    assert check(tmp_path, "early>=2.0") == ["early>=2.0 (installed: 2.0rc1)"]


def test_a_file_that_cannot_be_read_fails_the_job_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").mkdir()
    with pytest.raises(JobFailed, match=r"ClientError: requirements\.txt cannot be checked: Is a directory"):
        check_requirements(tmp_path / "requirements.txt")
