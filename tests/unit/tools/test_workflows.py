"""The GitHub workflows: least rights, nothing that can move under them, and commands that are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
WRITES = {("metrics", "comment"): {"pull-requests": "write"}}
"""All that any job may change."""


def faults(name: str, flow: dict[str, Any]) -> list[str]:
    """What is wrong with a workflow."""
    found = []
    triggers = flow[True]  # YAML 1.1 reads `on` so
    if "pull_request_target" in triggers or "workflow_run" in triggers:
        found.append("others' code would run with our rights")
    if "concurrency" not in flow or not {**(flow.get("permissions") or {})}.items() <= {("contents", "read")}:
        found.append("no concurrency, or more rights than reading")
    for job, told in flow["jobs"].items():
        rights = told.get("permissions", {})
        if not rights.items() <= {"contents": "read", **WRITES.get((name, job), {})}.items():
            found.append(f"{job} may more than it needs")
        if "timeout-minutes" not in told:
            found.append(f"{job} has no end")
        found += [fault for step in told["steps"] for fault in step_faults(job, step, rights)]
    return found


def step_faults(job: str, step: dict[str, Any], rights: dict[str, str]) -> list[str]:
    found = []
    if "uses" in step and not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"]):
        found.append(f"{job} uses {step['uses']}, which can become something else")
    if "checkout" in step.get("uses", "") and step.get("with", {}).get("persist-credentials") is not False:
        found.append(f"{job} leaves the token in the checkout")
    if "checkout" in step.get("uses", "") and "write" in rights.values():
        found.append(f"{job} has code of others and may write")
    if "${{" in step.get("run", ""):
        found.append(f"{job} puts what others write into a shell")
    if "secrets." in str(step):
        found.append(f"{job} has a secret")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_workflow_has_no_fault(path: Path) -> None:
    assert faults(path.stem, yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("@11bd71901bbe5b1630ceea73d27597364c9af683", "@v4", "can become something else"),
        ("pull_request:", "pull_request_target:", "with our rights"),
        ("contents: read", "contents: write", "may more than it needs"),
        ('"$BASE" HEAD', "${{ github.head_ref }}", "into a shell"),
        ("persist-credentials: false", "persist-credentials: true", "leaves the token"),
        ("${{ github.token }}", "${{ secrets.TOKEN }}", "has a secret"),
        ("timeout-minutes: 5\n", "\n", "has no end"),
    ],
)
def test_a_fault_is_found(old: str, new: str, said: str) -> None:
    text = (ROOT / ".github" / "workflows" / "metrics.yaml").read_text()
    assert old in text
    assert said in " ".join(faults("metrics", yaml.safe_load(text.replace(old, new))))


def test_what_they_run_is_there() -> None:
    made = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for path in FILES:
        for run in re.findall(r"^ +- run: (.+)$", path.read_text(), re.MULTILINE):
            words = run.split()
            assert (words[0] == "make" and words[1] in made) or words[:2] == ["sudo", "apt-get"]
        for tool in re.findall(r"tools/\w+\.py", path.read_text()):
            assert (ROOT / tool).is_file()
