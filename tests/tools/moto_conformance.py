"""Run moto's own tests of S3, Logs and SageMaker against drydock and against moto; list the outcomes that differ.

    python tests/tools/moto_conformance.py [SUITE ...]

The tests come from the sdist of the installed moto, without those that need a network or a container engine. They run
in moto's server mode, each suite against a new server. drydock gives moto's invented answers there
(--invented-answers); docs/reference/drydock.md says what it refuses otherwise. The SageMaker tests run twice: as they
are, and with ARNs of roles. Most of them use ARNs that are not those of roles: SageMaker and drydock refuse such a job.

The result of all suites is written to benchmarks/results/moto_conformance.json. With a SUITE (test_s3, test_logs,
test_sagemaker), only that one runs, and nothing is written. The exit code is 1 where an outcome differs and REASONS has
no reason for it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.metadata
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "moto_conformance.json"
PIP = (str(ROOT / ".leeway" / "uv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet")
FREEZEGUN = "freezegun==1.5.5"
"""A package that the tests import and uv.lock does not have."""
START_TIMEOUT_S = 60.0
RUN_TIMEOUT_S = 1800.0
"""Longest time for one suite against one server, in seconds."""
SAGEMAKER_SUITE = "test_sagemaker"
SUITES = ("test_s3", "test_logs", SAGEMAKER_SUITE)
"""Folders of moto's tests: of the services whose state drydock keeps itself."""
NON_ROLE_ARN_PATTERN = re.compile(r"arn:aws:sagemaker:[a-z0-9-]+:000000000000:x-x/|role_arn=resource_arn")

REASONS = {
    r"test_get_log_events(_with_start_from_head)?: .*'[fb]/|test_filter_logs_paging: .*dummy@stream": (
        "A token names the position of an event: its time and number. moto's is the index of an event, and moves when "
        "earlier events arrive late. CloudWatch does not say what is in a token."
    ),
    r"test_filter_logs_paging__unknown_token: .*nextToken is invalid": (
        "CloudWatch refuses a token that it has not issued, with this message; moto answers an empty page."
    ),
    r"at '(role|executionRole)Arn' failed to satisfy constraint": (
        "The RoleArn is the ARN of no role: SageMaker refuses it with this message."
    ),
    r"calling the CreateModel operation: A model must have PrimaryContainer": (
        "The model has no container: SageMaker refuses it."
    ),
    r"calling the CreateTransformJob operation: \d validation errors? detected": (
        "The S3 locations are no URIs, and some model names are missing: SageMaker refuses such a request."
    ),
    r"calling the CreateHyperParameterTuningJob operation: ": (
        "The request does not say what to train, or names no objective: SageMaker refuses it. drydock runs the trials."
    ),
    r"should_validate_input: .*enum value set": (
        "The wording is SageMaker's: '1 validation error', values without quotes. moto writes '1 validation errors'."
    ),
    r"test_describe_unknown_training_job: .*Requested re": (
        "SageMaker says 'Requested resource not found.' of a training job that does not exist (boto3 issue 2808)."
    ),
    r"test_describe_unknown_transform_job: .*name: unknown": (
        "SageMaker says 'Could not find requested job with name: NAME' of a processing or transform job that does not "
        "exist, as its Kubernetes controller expects (sagemaker-controller, generator.yaml)."
    ),
    r"test_create_(training|processing)_job: .*('InProgress'|'Failed'|ModelArtifacts)": (
        "The job runs: it is not Completed at once, and it fails, since its bucket does not exist."
    ),
    r"test_stop_processing_job: .*(== 'Stopped'|in status Failed)": (
        "The job ran and failed before it was stopped, since its bucket does not exist."
    ),
    r"notebook_instance.*: .*(Pending|not in \(\[)": (
        "A notebook instance is Pending for a second, as it is for minutes on SageMaker. moto's is InService at once."
    ),
    r"paginated_with_(target_in_middle|fragmented_targets): .*(NextToken|len\()": (
        "A page filtered by name is full, and has a NextToken only where more results follow. moto takes a page and "
        "then filters it. SageMaker documents that only for StatusEquals with MaxResults; drydock does it there, too."
    ),
}
"""Reasons why drydock is closer to SageMaker, by a pattern of a failed test's name and message."""


def main() -> int:
    """Run the suites, print and store the differences, and return 1 if a difference has no reason."""
    suites = sys.argv[1:] or SUITES
    if unknown_suites := set(suites) - set(SUITES):
        raise SystemExit(f"error: no suite {', '.join(sorted(unknown_suites))}; the suites are {', '.join(SUITES)}")
    version = importlib.metadata.version("moto")
    with tempfile.TemporaryDirectory(prefix="moto-conformance-") as name:
        folder = Path(name)
        tests = _download_tests(version, folder)
        rounds = {suite: _compare_outcomes(tests, suite, folder / suite) for suite in suites}
        if SAGEMAKER_SUITE in suites:
            _use_role_arns(tests)
            rounds[f"{SAGEMAKER_SUITE} with ARNs of roles"] = _compare_outcomes(
                tests, SAGEMAKER_SUITE, folder / "roles"
            )
    if not sys.argv[1:]:
        _write_report(version, rounds)
    differences = [test for result in rounds.values() for test in result["different"]]
    return int(any(not test["reason"] for test in differences))


def _write_report(version: str, rounds: dict[str, Any]) -> None:
    report = {
        "command": "python tests/tools/moto_conformance.py",
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "moto": version,
        "rounds": rounds,
    }
    RESULT.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _download_tests(version: str, folder: Path) -> Path:
    _run_command(*PIP, "install", "--no-deps", "--target", str(folder / "deps"), FREEZEGUN)
    _run_command(*PIP, "download", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), f"moto=={version}")
    with tarfile.open(next(folder.glob("moto-*.tar.gz"))) as archive:
        members = [member for member in archive if "/tests/" in member.name or member.name.endswith("/PKG-INFO")]
        archive.extractall(folder, members, filter="data")
    return next(folder.glob("moto-*/tests"))


def _use_role_arns(tests: Path) -> None:
    for path in (tests / SAGEMAKER_SUITE).glob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(NON_ROLE_ARN_PATTERN.sub(_replace_arn, text), encoding="utf-8")


def _replace_arn(match: re.Match[str]) -> str:
    return "role_arn=FAKE_ROLE_ARN" if match[0].startswith("role_arn") else "arn:aws:iam::000000000000:role/"


def _compare_outcomes(tests: Path, suite: str, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    with _start_moto(folder) as url:
        moto = _run_tests(tests, suite, url, folder / "moto.xml")
    with _start_drydock(folder) as url:
        drydock = _run_tests(tests, suite, url, folder / "drydock.xml")
    differences = [
        {
            "test": test,
            "moto": moto[test][0],
            "drydock": outcome,
            "message": message[:300],
            "reason": _find_reason(f"{test}: {message}"),
        }
        for test, (outcome, message) in sorted(drydock.items())
        if outcome != moto[test][0]
    ]
    passed = sum(outcome == "passed" for outcome, _ in drydock.values())
    sys.stdout.write(
        f"{folder.name}: {len(drydock)} tests, {passed} pass against drydock, "
        f"{len(differences)} have another outcome against moto\n"
    )
    for entry in differences:
        reason = entry["reason"] or f"NO REASON IS KNOWN: {entry['message']}"
        sys.stdout.write(f"  {entry['test']}: {entry['drydock']}: {reason}\n")
    return {"tests": len(drydock), "passed": passed, "different": differences}


def _run_tests(tests: Path, suite: str, url: str, report: Path) -> dict[str, tuple[str, str]]:
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests.parents[1] / "deps")]),
        "TEST_SERVER_MODE": "true",
        "TEST_SERVER_MODE_ENDPOINT": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    options = (
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "-m",
        "not network and not requires_docker",
        f"--rootdir={tests.parent}",
        f"--junitxml={report}",
    )
    command = [sys.executable, "-m", "pytest", *options, f"tests/{suite}"]
    try:
        result = subprocess.run(
            command, cwd=tests.parent, env=env, capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"error: {suite} has not ended after {RUN_TIMEOUT_S:.0f} s") from None
    if result.returncode not in (0, 1):
        raise SystemExit(
            f"error: pytest ended with exit code {result.returncode}: {(result.stdout + result.stderr)[-2000:]}"
        )
    return {
        f"{case.get('classname')}.{case.get('name')}": _read_outcome(case) for case in ET.parse(report).iter("testcase")
    }


def _read_outcome(case: ET.Element) -> tuple[str, str]:
    for element_name in ("failure", "error", "skipped"):
        if (element := case.find(element_name)) is not None:
            return {"failure": "failed"}.get(element_name, element_name), element.get("message", "")
    return "passed", ""


def _find_reason(message: str) -> str:
    return next((reason for pattern, reason in REASONS.items() if re.search(pattern, message, re.DOTALL)), "")


@contextlib.contextmanager
def _start_moto(folder: Path) -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with _start_server(folder, "moto.server", "-H", "127.0.0.1", "-p", str(port)):
        _wait_until(lambda: _is_reachable(f"http://127.0.0.1:{port}/moto-api/"))
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def _start_drydock(folder: Path) -> Iterator[str]:
    port_file = folder / "port"
    options = ("--port", "0", "--port-file", str(port_file), "--data", str(folder / "data"), "--invented-answers")
    with _start_server(folder, "drydock", *options):
        _wait_until(port_file.exists)
        yield f"http://127.0.0.1:{port_file.read_text()}"


@contextlib.contextmanager
def _start_server(folder: Path, *module: str) -> Iterator[None]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / f"{module[0]}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *module], cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("error: a server did not start")
        time.sleep(0.1)


def _is_reachable(url: str) -> bool:
    try:
        urllib.request.urlopen(url).close()
    except OSError:
        return False
    return True


def _run_command(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"error: {' '.join(command)}: {result.stderr.strip()[-500:]}")


if __name__ == "__main__":
    raise SystemExit(main())
