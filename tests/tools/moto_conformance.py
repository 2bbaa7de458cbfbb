"""moto's own SageMaker tests, against drydock and against moto: which end otherwise, and why that is truer.

    python tests/tools/moto_conformance.py

The tests are those of the sdist of the moto that is installed, in moto's server mode, each run against a server of its
own, started just for it. There are two rounds: the tests as they are; and with role ARNs that are ARNs of roles,
since most of the tests name none, and SageMaker (and drydock) refuse a job right there. The result is kept in
benchmarks/results/moto_conformance.json. Exit 1 where a test ends otherwise and REASONS knows no reason.
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
NEEDED = "freezegun==1.5.5"
"""What the tests import and the lock does not have."""
STARTS_WITHIN_S = 60.0
NOT_A_ROLE = re.compile(r"arn:aws:sagemaker:[a-z0-9-]+:000000000000:x-x/|role_arn=resource_arn")

REASONS = {
    r"at 'roleArn' failed to satisfy constraint": (
        "The RoleArn is the ARN of no role: SageMaker refuses it in these words."
    ),
    r"calling the CreateTransformJob operation: \d validation errors? detected": (
        "The places in S3 are no URIs, and some models' names none either: SageMaker refuses such a request."
    ),
    r"should_validate_input: .*enum value set": (
        "The wording is SageMaker's: '1 validation error', values without quotes. moto writes '1 validation errors'."
    ),
    r"test_describe_unknown_training_job: .*Requested re": (
        "SageMaker says 'Requested resource not found.' of a training job that is not there (boto3 issue 2808)."
    ),
    r"test_create_(training|processing)_job: .*('InProgress'|'Failed'|ModelArtifacts)": (
        "The job runs: it is not Completed at once, and it fails, since its bucket does not exist."
    ),
    r"test_stop_processing_job: .*(== 'Stopped'|in status Failed)": (
        "The job ran and failed before it was stopped, since its bucket does not exist."
    ),
    r"paginated_with_(target_in_middle|fragmented_targets): .*(NextToken|len\()": (
        "A page filtered by name is full, and has a NextToken only where more follow. moto takes a page first and "
        "filters it then; SageMaker documents that of StatusEquals with MaxResults only, and there drydock does it too."
    ),
}
"""Why drydock is truer, by a failing test's name and what it says."""


def main() -> int:
    """Run both rounds, print and keep what differs; return 1 where there is no reason for it."""
    version = importlib.metadata.version("moto")
    with tempfile.TemporaryDirectory(prefix="moto-conformance-") as name:
        folder = Path(name)
        tests = _tests(version, folder)
        rounds = {"the tests as they are": _compare(tests, folder / "plain")}
        _name_roles(tests)
        rounds["with ARNs of roles"] = _compare(tests, folder / "roles")
    report = {
        "command": "python tests/tools/moto_conformance.py",
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "moto": version,
        "rounds": rounds,
    }
    RESULT.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    different = [one for found in rounds.values() for one in found["different"]]
    return int(any(not one["why"] for one in different))


def _tests(version: str, folder: Path) -> Path:
    _run(*PIP, "install", "--no-deps", "--target", str(folder / "deps"), NEEDED)
    _run(*PIP, "download", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), f"moto=={version}")
    with tarfile.open(next(folder.glob("moto-*.tar.gz"))) as archive:
        members = [member for member in archive if "/tests/" in member.name or member.name.endswith("/PKG-INFO")]
        archive.extractall(folder, members, filter="data")
    return next(folder.glob("moto-*/tests"))


def _name_roles(tests: Path) -> None:
    for path in (tests / "test_sagemaker").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(NOT_A_ROLE.sub(_role, text), encoding="utf-8")


def _role(found: re.Match[str]) -> str:
    return "role_arn=FAKE_ROLE_ARN" if found[0].startswith("role_arn") else "arn:aws:iam::000000000000:role/"


def _compare(tests: Path, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    with _moto(folder) as url:
        moto = _outcomes(tests, url, folder / "moto.xml")
    with _drydock(folder) as url:
        drydock = _outcomes(tests, url, folder / "drydock.xml")
    different = [
        {"test": test, "moto": moto[test][0], "drydock": outcome, "said": said[:300], "why": _why(f"{test}: {said}")}
        for test, (outcome, said) in sorted(drydock.items())
        if outcome != moto[test][0]
    ]
    passed = sum(outcome == "passed" for outcome, _ in drydock.values())
    sys.stdout.write(
        f"{len(drydock)} tests, {passed} pass against drydock, {len(different)} end otherwise than against moto\n"
    )
    for one in different:
        sys.stdout.write(f"  {one['test']}: {one['drydock']}: {one['why'] or 'FOR NO KNOWN REASON: ' + one['said']}\n")
    return {"tests": len(drydock), "passed": passed, "different": different}


def _outcomes(tests: Path, url: str, report: Path) -> dict[str, tuple[str, str]]:
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests.parents[1] / "deps")]),
        "TEST_SERVER_MODE": "true",
        "TEST_SERVER_MODE_ENDPOINT": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    options = ("-q", "-p", "no:cacheprovider", "-o", "addopts=", f"--rootdir={tests.parent}", f"--junitxml={report}")
    command = [sys.executable, "-m", "pytest", *options, "tests/test_sagemaker"]
    done = subprocess.run(command, cwd=tests.parent, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"error: pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return {f"{case.get('classname')}.{case.get('name')}": _outcome(case) for case in ET.parse(report).iter("testcase")}


def _outcome(case: ET.Element) -> tuple[str, str]:
    for kind in ("failure", "error", "skipped"):
        if (found := case.find(kind)) is not None:
            return {"failure": "failed"}.get(kind, kind), found.get("message", "")
    return "passed", ""


def _why(said: str) -> str:
    return next((reason for pattern, reason in REASONS.items() if re.search(pattern, said, re.DOTALL)), "")


@contextlib.contextmanager
def _moto(folder: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with _started(folder, "moto.server", "-H", "127.0.0.1", "-p", str(port)):
        _until(lambda: _answers(f"http://127.0.0.1:{port}/moto-api/"))
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def _drydock(folder: Path) -> Iterator[str]:
    port = folder / "port"
    with _started(folder, "drydock", "--port", "0", "--port-file", str(port), "--data", str(folder / "data")):
        _until(port.exists)
        yield f"http://127.0.0.1:{port.read_text()}"


@contextlib.contextmanager
def _started(folder: Path, *module: str) -> Iterator[None]:
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


def _until(probe: Callable[[], bool]) -> None:
    ends = time.monotonic() + STARTS_WITHIN_S
    while not probe():
        if time.monotonic() > ends:
            raise SystemExit("error: a server did not start")
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url).close()
    except OSError:
        return False
    return True


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)}: {done.stderr.strip()[-500:]}")


if __name__ == "__main__":
    raise SystemExit(main())
