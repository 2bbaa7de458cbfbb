"""Test that the GitHub workflows have the least permissions, pinned actions, and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
WRITE_PERMISSIONS = {("metrics", "comment"): {"pull-requests": "write"}}
"""All write permissions that a job may have."""


def find_faults(name: str, flow: dict[str, Any]) -> list[str]:
    """List what is wrong with a workflow."""
    faults = []
    triggers = flow[True]  # YAML 1.1 reads `on` as True
    if "pull_request_target" in triggers or "workflow_run" in triggers:
        faults.append("code of a fork would run with the permissions of the repository")
    if "concurrency" not in flow or not {**(flow.get("permissions") or {})}.items() <= {("contents", "read")}:
        faults.append("no concurrency, or more than read permission")
    for job, definition in flow["jobs"].items():
        permissions = definition.get("permissions", {})
        if not permissions.items() <= {"contents": "read", **WRITE_PERMISSIONS.get((name, job), {})}.items():
            faults.append(f"{job} has more permissions than it needs")
        if "timeout-minutes" not in definition:
            faults.append(f"{job} has no timeout")
        faults += [fault for step in definition["steps"] for fault in find_step_faults(job, step, permissions)]
    return faults


def find_step_faults(job: str, step: dict[str, Any], permissions: dict[str, str]) -> list[str]:
    """List what is wrong with a step of a job."""
    faults = []
    if "uses" in step and not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"]):
        faults.append(f"{job} uses {step['uses']}, which is not pinned to a commit")
    if "checkout" in step.get("uses", "") and step.get("with", {}).get("persist-credentials") is not False:
        faults.append(f"{job} leaves the token in the checkout")
    if "checkout" in step.get("uses", "") and "write" in permissions.values():
        faults.append(f"{job} checks out foreign code and has write permission")
    if "${{" in step.get("run", ""):
        faults.append(f"{job} inserts foreign text into a shell command")
    if "secrets." in str(step):
        faults.append(f"{job} has a secret")
    return faults


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_workflow_has_no_fault(path: Path) -> None:
    assert find_faults(path.stem, yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("@11bd71901bbe5b1630ceea73d27597364c9af683", "@v4", "is not pinned to a commit"),
        ("pull_request:", "pull_request_target:", "with the permissions of the repository"),
        ("contents: read", "contents: write", "has more permissions than it needs"),
        ('"$BASE" HEAD', "${{ github.head_ref }}", "into a shell command"),
        ("persist-credentials: false", "persist-credentials: true", "leaves the token"),
        ("${{ github.token }}", "${{ secrets.TOKEN }}", "has a secret"),
        ("timeout-minutes: 5\n", "\n", "has no timeout"),
    ],
)
def test_check_finds_a_fault(old: str, new: str, fault: str) -> None:
    text = (ROOT / ".github" / "workflows" / "metrics.yaml").read_text()
    assert old in text
    assert fault in " ".join(find_faults("metrics", yaml.safe_load(text.replace(old, new))))


def test_targets_and_tools_of_workflows_exist() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for path in FILES:
        for run in re.findall(r"^ +- run: (.+)$", path.read_text(), re.MULTILINE):
            words = run.split()
            is_target = words[0] == "make" and words[1] in targets
            assert is_target or words[:2] == ["sudo", "apt-get"] or words == ["npm", "--prefix", "ui", "ci"]
        for tool in re.findall(r"tools/\w+\.py", path.read_text()):
            assert (ROOT / tool).is_file()


PACKAGE_OF_RUNNER = {"postgresql", "docker.io", "docker-compose", "util-linux", "awscli", "python3-pip"}
"""Packages whose programs GitHub's runner (ubuntu-24.04) has."""
MISSING = re.compile(r"apt-get install ([\w.-]+)|find_program\([^)\n]*?\"([a-z][\w.-]+)\"\)")

REASON = re.compile(
    r"(?:pytest\.skip\(|reason=)\s*f?\"([^\"]*(?:missing|no container engine)[^\"]*(?:\"\s+\"[^\"]*)*)\""
)
"""Reason of a skip because a program is missing."""


def list_packages_for_tests() -> set[str]:
    """List the packages that a skipped test names."""
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    return {name for text in texts for groups in MISSING.findall(text) for name in groups if name}


def test_ci_installs_what_the_tests_would_be_skipped_without() -> None:
    text = (ROOT / ".github" / "workflows" / "check.yaml").read_text()
    installed = {word for line in re.findall(r"apt-get install --yes (.+)", text) for word in line.split()}
    packages = list_packages_for_tests()
    assert {"postgresql", "prometheus", "redis-server"} <= packages, "the search finds what tests name"
    assert packages - PACKAGE_OF_RUNNER - installed == set()


def test_a_test_that_is_skipped_without_a_program_says_what_to_install() -> None:
    """A reason that says `missing` and no more leaves the reader to guess what to install."""
    reasons = []
    for path in (ROOT / "tests").rglob("*.py"):
        reasons += re.findall(
            r"(?:pytest\.skip\(|reason=)\s*f?\"([^\"]*(?:missing|no container engine)[^\"]*)\"", path.read_text()
        )
    assert len(reasons) > 5
    assert [reason for reason in reasons if "install" not in reason] == []


def test_workflow_and_local_script_run_the_same_targets() -> None:
    flow = (ROOT / ".github" / "workflows" / "check.yaml").read_text()
    targets = {run.split()[1] for run in re.findall(r"- run: (make .+)$", flow, re.MULTILINE)}
    assert targets == set(re.findall(r"^ +make ([\w-]+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    assert {"check", "test", "test-containers", "conformance"} <= targets
