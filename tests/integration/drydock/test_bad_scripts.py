"""Test bad scripts, requests and moments: the status is correct, the reason helps, and no process is left."""

import contextlib
import fnmatch
import io
import os
import random
import shutil
import subprocess
import tarfile
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from botocore.exceptions import ClientError

from drydock.execution import host_processes
from tests.tools.processes import is_alive

NO_MODEL = "No model artifact is saved under path /opt/ml/model."
MAX_GROWTH_BYTES = 300_000_000
WAITS = """
import os, pathlib, time
pathlib.Path(os.environ["SM_MODEL_DIR"], "m").write_text("1")
print("on", flush=True)
while not pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "go").exists():
    time.sleep(0.02)
"""
IGNORES_SIGTERM = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("pid", os.getpid(), flush=True)
while True:
    time.sleep(0.05)
"""


def list_processes(drydock: Any) -> list[str]:
    """List the processes that belong to a job of the server."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if any(folder.is_relative_to(drydock.data.resolve()) for folder in host_processes.read_host_trees(process)):
                processes.append(f"{process.pid} {process.cmdline()}")
    return processes


def list_files(drydock: Any, pattern: str) -> list[str]:
    """List the names of the server's files that match. Unlike rglob, it accepts that a folder is deleted meanwhile."""
    return fnmatch.filter([name for _, _, names in os.walk(drydock.data) for name in names], pattern)


def list_phases(description: dict[str, Any]) -> list[str]:
    """List the secondary statuses of a job."""
    return [transition["Status"] for transition in description["SecondaryStatusTransitions"]]


@pytest.fixture(autouse=True)
def check_server(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check after each test that the server is healthy, and that no job has a process or a record of one."""
    yield
    if "drydock" in request.fixturenames:
        drydock = request.getfixturevalue("drydock")
        assert drydock.get_health()["status"] == "ok"
        assert list_processes(drydock) == []
        assert not list_files(drydock, "*.process.json")


FAILS = {
    "exits-1": ("import sys; print('about to fail'); sys.exit(1)", "ExitCode 1\n", "about to fail"),
    "raises": ("raise RuntimeError('no label')", "ExitCode 1\n", "RuntimeError: no label"),
    "segv": ("import os; print('last words', flush=True); os.kill(os.getpid(), 11)", "ExitCode 139\n", "last words"),
    "kill": ("import os; os.kill(os.getpid(), 9)", "ExitCode 137\n", "exit code: 137"),
    "abort": ("import os; os.abort()", "ExitCode 134\n", "exit code: 134"),
    "syntax": ("def (", "ExitCode 1\n", "SyntaxError"),
    "garbage": (
        "import os, sys; os.write(1, bytes(range(256)) * 40); sys.exit(3)",
        "ExitCode 3\n",
        "ABC",
    ),
    "failure-file-is-a-fifo": (
        "import os, sys; os.mkfifo(os.environ['SM_OUTPUT_DIR'] + '/failure'); sys.exit('logged reason')",
        "ExitCode 1\n",
        "logged reason",
    ),
    "no-folder-and-fails": (
        "import os, shutil, sys\nshutil.rmtree(os.environ['SAGEMAKER_BASE_DIR'], ignore_errors=True)\nsys.exit('gone')",
        "ExitCode 1\n",
        "gone",
    ),
}


def run_jobs(drydock: Any, jobs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Create training jobs, by name, and wait for all of them; return their descriptions by name.

    The jobs run side by side: one after the other, each would wait for its own start and end.

    Args:
        drydock: the server.
        jobs: arguments of `drydock.create_job`, such as `script`, by the name of the job.
    """
    for name, fields in jobs.items():
        drydock.create_job(name, **fields)
    return {name: drydock.wait_for_end(name) for name in jobs}


def test_failed_scripts_are_reported(drydock: Any) -> None:
    failed_jobs = run_jobs(drydock, {name: {"script": script} for name, (script, _, _) in FAILS.items()})
    for name, failed_job in failed_jobs.items():
        _, code, message = FAILS[name]
        assert failed_job["TrainingJobStatus"] == failed_job["SecondaryStatus"] == "Failed", name
        assert list_phases(failed_job) == ["Starting", "Downloading", "Training", "Uploading", "Failed"], name
        reason = failed_job["FailureReason"]
        assert reason.startswith("AlgorithmError: ") and code in reason and message in reason, (name, reason)
        assert len(reason) <= 1024 and "ModelArtifacts" not in failed_job, name


COMPLETES = {
    "no-model": "print('no model')",
    "no-folder": "import os, shutil; shutil.rmtree(os.environ['SAGEMAKER_BASE_DIR'], ignore_errors=True)",
    "no-model-folder": "import os; os.rmdir(os.environ['SM_MODEL_DIR'])",
    "no-output-folder": "import os, shutil; shutil.rmtree(os.environ['SM_OUTPUT_DIR'])",
    "only-a-fifo": "import os; os.mkfifo(os.environ['SM_MODEL_DIR'] + '/fifo')",
    "only-a-link-to-another-folder": "import os; os.symlink('/etc', os.environ['SM_MODEL_DIR'] + '/etc')",
}


def test_scripts_without_a_model_complete(drydock: Any) -> None:
    for name, job in run_jobs(drydock, {name: {"script": script} for name, script in COMPLETES.items()}).items():
        assert job["TrainingJobStatus"] == "Completed", (name, job.get("FailureReason"))
        lines = drydock.read_log(name)
        assert NO_MODEL in lines or any(line.startswith("not in model.tar.gz") for line in lines), name


def test_model_folder_that_is_a_file_fails_the_job(drydock: Any) -> None:
    script = "import os; os.rmdir(os.environ['SM_MODEL_DIR']); open(os.environ['SM_MODEL_DIR'], 'w').write('model')"
    failed_job = drydock.run_job("model-is-a-file", script)
    assert failed_job["TrainingJobStatus"] == "Failed"
    assert "/opt/ml/model" in failed_job["FailureReason"], failed_job["FailureReason"]


LOG_DAMAGES = {
    "unlinks": "os.unlink(log)",
    "renames": "os.rename(log, log + '.old')",
    "chmods": "os.chmod(log, 0)",
    "truncates": "os.truncate(log, 0)",
    "replaces-by-a-fifo": "os.unlink(log); os.mkfifo(log)",
    "replaces-by-a-folder": "os.unlink(log); os.mkdir(log)",
}


DAMAGES_ITS_LOG = """
import os, pathlib, time
log = os.readlink("/proc/self/fd/1")
print("before", flush=True)
while not pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "go").exists():
    time.sleep(0.02)
{damage}
print("after", flush=True)
time.sleep(0.4)
pathlib.Path(os.environ["SM_MODEL_DIR"], "m").write_text("1")
"""


def test_scripts_that_damage_their_logs_complete(drydock: Any) -> None:
    for name, damage in LOG_DAMAGES.items():
        drydock.create_job(f"log-{name}", DAMAGES_ITS_LOG.replace("{damage}", damage))
    for name in LOG_DAMAGES:
        # Lines that were read stay, whatever the script does with the file.
        drydock.wait_for_line(f"log-{name}", "before")
        (drydock.get_job_folder(f"log-{name}") / "go").touch()
    for name in LOG_DAMAGES:
        job = drydock.wait_for_end(f"log-{name}")
        assert job["TrainingJobStatus"] == "Completed", (name, job.get("FailureReason"))
        assert "before" in drydock.read_log(f"log-{name}"), name


def read_rss(drydock: Any) -> int:
    """Return the resident memory of the server, in bytes."""
    return int(psutil.Process(drydock.process.pid).memory_info().rss)


def read_log_pages(drydock: Any, name: str) -> Iterator[list[str]]:
    """Yield the job's log page by page."""
    logs, group = drydock.client("logs"), "/aws/sagemaker/TrainingJobs"
    (stream,) = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{name}/")["logStreams"]
    query = {"logGroupName": group, "logStreamName": stream["logStreamName"], "startFromHead": True}
    page = logs.get_log_events(**query)
    while page["events"]:
        yield [event["message"] for event in page["events"]]
        page = logs.get_log_events(**query, nextToken=page["nextForwardToken"])


def read_last_page(drydock: Any, name: str) -> list[dict[str, Any]]:
    """Return the last events of the job's log so far."""
    logs, group = drydock.client("logs"), "/aws/sagemaker/TrainingJobs"
    (stream,) = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{name}/")["logStreams"]
    page = logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"], limit=2)
    return list(page["events"])


def find_end(job: dict[str, Any], phase: str) -> float:
    """Return when a phase of the job ended, in seconds since 1970."""
    transitions = {entry["Status"]: entry["EndTime"] for entry in job["SecondaryStatusTransitions"]}
    return float(transitions[phase].timestamp())


@pytest.mark.soak
def test_log_of_100_megabytes_needs_little_memory(drydock: Any) -> None:
    initial = peak = read_rss(drydock)
    drydock.create_job("loud", "line = 'x' * 999\nfor n in range(100_000):\n    print(line)\nprint('the end')")
    while (job := drydock.describe_job("loud"))["TrainingJobStatus"] == "InProgress":
        peak = max(peak, read_rss(drydock))
        time.sleep(0.1)
    assert job["TrainingJobStatus"] == "Completed"
    assert peak - initial < MAX_GROWTH_BYTES
    # The end of a job does not wait for a long log.
    drydock.wait_until("the log", lambda: drydock.read_log("loud"))
    drydock.wait_until("the whole log", lambda: read_last_page(drydock, "loud")[-1]["message"] == NO_MODEL)
    last_event, training_end = read_last_page(drydock, "loud")[0], find_end(job, "Training")
    assert last_event["message"] == "the end"
    assert last_event["timestamp"] <= training_end * 1000
    assert read_rss(drydock) - initial < MAX_GROWTH_BYTES
    pages = list(read_log_pages(drydock, "loud"))
    assert len(pages) > 90 and pages[-1][-2:] == ["the end", NO_MODEL]
    assert sum(page.count("x" * 999) for page in pages) == 100_000


def test_line_of_10_megabytes_needs_little_memory(drydock: Any) -> None:
    initial = read_rss(drydock)
    job = drydock.run_job("long-line", "print('x' * 10_000_000, end='')")
    assert job["TrainingJobStatus"] == "Completed"
    assert sum(line.count("x") for page in read_log_pages(drydock, "long-line") for line in page) == 10_000_000
    assert read_rss(drydock) - initial < MAX_GROWTH_BYTES


def test_script_that_ignores_a_stop_is_killed(drydock: Any) -> None:
    drydock.create_job("ignored-stop", IGNORES_SIGTERM)
    pid = int(drydock.wait_for_line("ignored-stop", "pid").split()[1])
    drydock.stop_job("ignored-stop")
    stopped_job = drydock.wait_for_end("ignored-stop")
    assert stopped_job["TrainingJobStatus"] == "Stopped" and "FailureReason" not in stopped_job
    assert not is_alive(pid) and list_processes(drydock) == []


def test_script_that_ignores_an_interruption_is_killed(drydock: Any) -> None:
    drydock.create_job("ignored-interruption", IGNORES_SIGTERM, **drydock.build_spot_fields("ignored-interruption"))
    pid = int(drydock.wait_for_line("ignored-interruption", "pid").split()[1])
    drydock.send_command("interrupt", job="ignored-interruption", notice_s=0.3, no_capacity_s=600)
    drydock.wait_until(
        "the interruption", lambda: drydock.describe_job("ignored-interruption")["SecondaryStatus"] == "Interrupted"
    )
    assert not is_alive(pid) and list_processes(drydock) == []
    drydock.stop_job("ignored-interruption")  # the job is Interrupted and waits, so this ends it
    assert drydock.describe_job("ignored-interruption")["TrainingJobStatus"] == "Stopped"


DAEMONS = {
    "setsid": "subprocess.Popen(['sleep', '600'], start_new_session=True)",
    "double-fork": """
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 64)
    os.environ.clear()
    time.sleep(600)
time.sleep(0.3)
""",
    "clean-environment": "subprocess.Popen(['/bin/sleep', '600'], start_new_session=True, env={})",
    "many": "[subprocess.Popen(['sleep', '600'], start_new_session=True) for _ in range(30)]",
}


@pytest.mark.parametrize("code", [0, 1])
def test_daemons_end_with_their_job(drydock: Any, code: int) -> None:
    scripts = {
        f"daemons-{name}-{code}": f"import os, subprocess, sys, time\n{daemons}\nsys.exit({code})"
        for name, daemons in DAEMONS.items()
    }
    for name, ended_job in run_jobs(drydock, {name: {"script": script} for name, script in scripts.items()}).items():
        assert ended_job["TrainingJobStatus"] == ("Failed" if code else "Completed"), name
    assert list_processes(drydock) == []


def test_links_out_of_the_job_folder_are_not_followed(drydock: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    script = f"""
import os, shutil, time
shutil.rmtree(os.environ["SM_CHECKPOINT_DIR"])
os.symlink({str(tmp_path)!r}, os.environ["SM_CHECKPOINT_DIR"])
os.rmdir(os.environ["SM_MODEL_DIR"])
os.symlink({str(tmp_path)!r}, os.environ["SM_MODEL_DIR"])
time.sleep(0.6)
"""
    drydock.put("checkpoints/outside-link/object", b"1")
    failed_job = drydock.run_job(
        "outside-link", script, CheckpointConfig={"S3Uri": "s3://bucket/checkpoints/outside-link"}
    )
    assert (
        failed_job["TrainingJobStatus"] == "Failed" and "/opt/ml/model is not a folder" in failed_job["FailureReason"]
    )
    assert drydock.list_keys("checkpoints/outside-link/") == ["checkpoints/outside-link/object"]
    assert drydock.list_keys("output/outside-link/") == []


def test_checkpoint_folder_may_have_other_files(drydock: Any) -> None:
    long_name, binary = "x" * 250, bytes(range(256))
    files = {"a b\u00e9\u2603": b"1", long_name: b"2", "deep/er/file": binary, "empty": b"", "marker/": b""}
    for key, body in files.items():
        drydock.put(f"checkpoints/foreign/{key}", body)
    drydock.put("checkpoints/foreign//twice", b"3")
    drydock.put("checkpoints/foreign/../up", b"4")
    drydock.put(f"checkpoints/foreign/{'y' * 300}", b"5")
    script = """
import os, pathlib
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
print("restored", len(files), flush=True)
assert files["deep/er/file"] == bytes(range(256)) and files["empty"] == b"", sorted(files)
os.mkfifo(folder / "fifo")
(folder / "own").write_text("1")
"""
    job = drydock.run_job("foreign", script, CheckpointConfig={"S3Uri": "s3://bucket/checkpoints/foreign"})
    assert job["TrainingJobStatus"] == "Completed", job["FailureReason"]
    keys = drydock.list_keys("checkpoints/foreign/")
    assert "checkpoints/foreign/own" in keys and "checkpoints/foreign/fifo" not in keys
    assert {"checkpoints/foreign/../up", f"checkpoints/foreign/{'y' * 300}", "checkpoints/foreign/empty"} <= set(keys)


def pack_bundle(*members: tuple[str, int, bytes]) -> bytes:
    """Return a source bundle of (name, type, content or target)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind == tarfile.REGTYPE:
                member.size = len(content)
            else:
                member.linkname = content.decode()
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


SCRIPT = ("train.py", tarfile.REGTYPE, b"print(1)")
BUNDLES = {
    "empty": (b"", "ReadError"),
    "no-archive": (b"#!/bin/sh\necho no tar\n", "ReadError"),
    "cut": (pack_bundle(SCRIPT)[:-30], "cannot unpack"),
    "up": (pack_bundle(SCRIPT, ("../up.txt", tarfile.REGTYPE, b"x")), "OutsideDestinationError"),
    "absolute-link": (pack_bundle(SCRIPT, ("link", tarfile.SYMTYPE, b"/etc/passwd")), "AbsoluteLinkError"),
    "link-up": (pack_bundle(SCRIPT, ("link", tarfile.SYMTYPE, b"../../..")), "LinkOutsideDestinationError"),
    "device": (pack_bundle(SCRIPT, ("null", tarfile.CHRTYPE, b"")), "SpecialFileError"),
    "fifo": (pack_bundle(("train.py", tarfile.FIFOTYPE, b"")), "SpecialFileError"),
    "no-script": (pack_bundle(("other.py", tarfile.REGTYPE, b"")), "no file train.py in sagemaker_submit_directory"),
    "script-is-a-folder": (pack_bundle(("train.py/", tarfile.DIRTYPE, b"")), "no file train.py"),
}


def test_invalid_source_bundles_are_refused(drydock: Any) -> None:
    uris = {name: drydock.put(f"bundles/{name}.tar.gz", content) for name, (content, _) in BUNDLES.items()}
    jobs = {f"bundle-{name}": {"HyperParameters": {"sagemaker_submit_directory": uri}} for name, uri in uris.items()}
    failed_jobs = run_jobs(drydock, jobs)
    for name, (_, message) in BUNDLES.items():
        failed_job = failed_jobs[f"bundle-{name}"]
        assert failed_job["TrainingJobStatus"] == "Failed" and list_phases(failed_job)[-2] == "Downloading", name
        assert message in failed_job["FailureReason"], (name, failed_job["FailureReason"])
    assert not list_files(drydock, "up.txt")


REFUSED = {
    "a thousand hyperparameters": {"HyperParameters": {f"n{n}": "1" for n in range(1_000)}},
    "a value too long": {"HyperParameters": {"a": "x" * 2_501}},
    "a name too long": {"HyperParameters": {"x" * 257: "1"}},
    "an invalid variable": {"Environment": {"A=B": "1"}},
    "a variable with a dash": {"Environment": {"A-B": "1"}},
    "too many variables": {"Environment": {f"N{n}": "1" for n in range(101)}},
    "an invalid role": {"RoleArn": "role"},
    "a user instead of a role": {"RoleArn": "arn:aws:iam::123456789012:user/somebody"},
    "limits in the wrong order": {
        "EnableManagedSpotTraining": True,
        "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 59},
    },
    "checkpoints outside the job folder": {"CheckpointConfig": {"S3Uri": "s3://bucket/c", "LocalPath": "/etc"}},
    "checkpoints in place of the job folder": {"CheckpointConfig": {"S3Uri": "s3://bucket/c", "LocalPath": "/opt/ml"}},
    "no instances": {"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 0, "VolumeSizeInGB": 1}},
    "too many instances": {"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 21, "VolumeSizeInGB": 1}},
}


def test_refused_requests_leave_no_files(drydock: Any) -> None:
    client, request = drydock.create_unchecked_client("sagemaker"), drydock.build_request("refused")
    for name, fields in REFUSED.items():
        with pytest.raises(ClientError) as error:
            client.create_training_job(**{**request, **fields})
        details = error.value.response["Error"]
        assert details["Code"] == "ValidationException" and len(details["Message"]) <= 2_000, name
        assert "Traceback" not in details["Message"], name
        assert not drydock.get_job_folder("refused").parent.exists(), name


def test_request_of_maximum_size_is_accepted(drydock: Any) -> None:
    script = "import json, os; assert len(json.loads(os.environ['SM_HPS'])) == 98, os.environ['SM_HPS'][:99]"
    hyperparameters = {f"n{n:02d}-\u00e9 $(x)": "x" * 400 for n in range(98)}
    variables = {f"_{n:02d}{'N' * 500}": "\n\t$HOME 'x' \u2603" for n in range(100)}
    job = drydock.run_job("much", script, HyperParameters=hyperparameters, Environment=variables)
    assert job["TrainingJobStatus"] == "Completed", job["FailureReason"]
    # On Linux a variable has at most 128 KiB, and SM_HPS is one variable.
    failed_job = drydock.run_job("too-much", script, HyperParameters=dict.fromkeys(hyperparameters, "x" * 2_500))
    assert failed_job["TrainingJobStatus"] == "Failed" and "Argument list too long" in failed_job["FailureReason"]


IMPOSSIBLE = {
    "nul-in-a-value": {"Environment": {"A": "a\0b"}},
    "nul-in-a-hyperparameter": {"HyperParameters": {"a": "a\0b"}},
    "no-variable": {"HyperParameters": {"a=b": "1"}},
}


def test_values_that_no_process_can_have_are_reported(drydock: Any) -> None:
    jobs = {f"impossible-{name}": {"script": "print('never')", **fields} for name, fields in IMPOSSIBLE.items()}
    for name, failed_job in run_jobs(drydock, jobs).items():
        assert failed_job["TrainingJobStatus"] == "Failed" and "cannot execute" in failed_job["FailureReason"], name
        assert drydock.read_log(name) == [], name


def test_job_may_set_any_variable(drydock: Any) -> None:
    names = ("LD_PRELOAD", "PYTHONHOME", "PATH", "TMPDIR", "HOME", "DRYDOCK_TREE", "PYTHONPATH")
    jobs = {
        f"variable-{name.replace('_', '-')}": {"script": "print(1)", "Environment": {name: "/nowhere"}}
        for name in names
    }
    for name, ended_job in run_jobs(drydock, jobs).items():
        assert ended_job["TrainingJobStatus"] in ("Completed", "Failed"), name
        assert ended_job["TrainingJobStatus"] == "Completed" or "exit code: " in ended_job["FailureReason"], name


def repeat_with_longer_outages(attempt: Callable[[float], bool]) -> None:
    """Call attempt(for_s) with longer and longer outages of S3, until it succeeds before the outage ends."""
    assert any(attempt(for_s) for for_s in (2, 8, 32)), "each outage ended too early"


@pytest.mark.soak
def test_job_is_stopped_while_it_downloads(drydock: Any) -> None:
    drydock.put("held/train/a.csv", b"1")
    channels = [drydock.build_channel("train", "s3://bucket/held/train/")]

    def attempt(for_s: float) -> bool:
        name = f"held-down-{for_s}"
        request = drydock.build_request(name, WAITS, InputDataConfig=channels)
        drydock.send_command("outage", service="s3", for_s=for_s)
        drydock.client("sagemaker").create_training_job(**request)
        drydock.wait_until("the download", lambda: drydock.describe_job(name)["SecondaryStatus"] != "Starting")
        drydock.stop_job(name)
        status_after_stop = drydock.describe_job(name)["SecondaryStatus"]
        stopped_job = drydock.wait_for_end(name)
        if status_after_stop != "Stopping" or "Training" in list_phases(stopped_job):
            return False
        assert list_phases(stopped_job) == ["Starting", "Downloading", "Stopping", "Stopped"]
        assert drydock.read_log(name) == [] and drydock.list_keys(f"output/{name}/") == []
        return True

    repeat_with_longer_outages(attempt)


def start_upload(drydock: Any, name: str, for_s: float, **fields: Any) -> None:
    """Start a job that uploads as long as S3 is out. After a short outage it may have ended already."""
    drydock.create_job(name, WAITS, **fields)
    drydock.wait_for_line(name, "on")
    drydock.send_command("outage", service="s3", for_s=for_s)
    (drydock.get_job_folder(name) / "go").touch()
    drydock.wait_until(
        "the upload", lambda: drydock.describe_job(name)["SecondaryStatus"] in ("Uploading", "Completed")
    )


def test_job_is_stopped_while_it_uploads(drydock: Any) -> None:
    def attempt(for_s: float) -> bool:
        name = f"held-up-{for_s}"
        start_upload(drydock, name, for_s)
        with contextlib.suppress(ClientError):  # the job has ended
            drydock.stop_job(name)
        stopped_job = drydock.wait_for_end(name)
        if "Stopping" not in list_phases(stopped_job):
            return False
        assert list_phases(stopped_job)[-3:] == ["Uploading", "Stopping", "Stopped"]
        assert drydock.read_archive(stopped_job["ModelArtifacts"]["S3ModelArtifacts"]) == {"m": b"1"}
        return True

    repeat_with_longer_outages(attempt)


@pytest.mark.soak
def test_interruption_does_not_stop_an_upload(drydock: Any) -> None:
    def attempt(for_s: float) -> bool:
        name = f"too-late-{for_s}"
        start_upload(drydock, name, for_s, **drydock.build_spot_fields(name))
        try:
            drydock.send_command("interrupt", job=name)
        except urllib.error.HTTPError:  # the job has ended
            return False
        assert_not_interrupted(drydock, drydock.wait_for_end(name))
        return True

    repeat_with_longer_outages(attempt)


def assert_not_interrupted(drydock: Any, job: dict[str, Any]) -> None:
    """Assert that a job completed without an interruption."""
    assert job["TrainingJobStatus"] == "Completed" and "Interrupted" not in list_phases(job)
    assert drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"m": b"1"}


def test_job_is_stopped_during_the_notice_of_an_interruption(drydock: Any) -> None:
    drydock.create_job("both", IGNORES_SIGTERM, **drydock.build_spot_fields("both"))
    drydock.wait_for_line("both", "pid")
    drydock.send_command("interrupt", job="both", notice_s=1, no_capacity_s=600)
    drydock.stop_job("both")
    stopped_job = drydock.wait_for_end("both")
    assert stopped_job["TrainingJobStatus"] == stopped_job["SecondaryStatus"] == "Stopped"
    assert list_phases(stopped_job).count("Training") == 1 and list_processes(drydock) == []


def test_long_outage_of_s3_fails_the_job(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path, "--cores", "8", "--memory-gib", "100", "--s3-patience", "5") as server:
        server.create_job("in", WAITS)
        server.wait_for_line("in", "on")
        request = server.build_request("out", WAITS)
        server.send_command("outage", service="s3", for_s=600)
        server.client("sagemaker").create_training_job(**request)
        (server.get_job_folder("in") / "go").touch()
        server.wait_until("the upload", lambda: server.describe_job("in")["SecondaryStatus"] in ("Uploading", "Failed"))
        for name, message in (("in", "Artifact upload failed: model.tar.gz"), ("out", "Artifact upload failed: s3://")):
            failed_job = server.wait_for_end(name)
            assert failed_job["TrainingJobStatus"] == "Failed" and "ModelArtifacts" not in failed_job
            reason = failed_job["FailureReason"]
            # A client may retry this; ClientError means that the request is wrong.
            assert reason.startswith("InternalServerError: ") and message in reason and "SlowDown" in reason
        assert list_processes(server) == [] and not list_files(server, "model.tar.gz")


RECORDS_RUN = """
import os, pathlib, random, sys, time
name = os.environ["TRAINING_JOB_NAME"]
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
with open(os.environ["RUNS"], "a") as runs:
    runs.write(f"{name} starts {os.getpid()}\\n")
time.sleep(random.Random(name).uniform(0.1, 0.6))
pathlib.Path(os.environ["SM_MODEL_DIR"], "name").write_text(name)
with open(os.environ["RUNS"], "a") as runs:
    runs.write(f"{name} ends {os.getpid()}\\n")
"""


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.soak)])
def test_many_concurrent_creates_stops_and_interruptions_leave_a_correct_state(
    tmp_path: Path, run_drydock: Any, count: int
) -> None:
    runs, generator = tmp_path / "runs", random.Random(13)
    names = [f"disturbed-{number:03d}" for number in range(count)]
    created_names: list[str] = []
    with run_drydock(tmp_path, "--cores", "32", "--memory-gib", "1000", "--stop-grace", "1") as server:
        hyperparameters = {
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": server.upload_source("disturbed", RECORDS_RUN),
        }

        def create(name: str) -> None:
            fields = {"HyperParameters": hyperparameters, "Environment": {"RUNS": str(runs)}}
            request = {**server.build_request(name, **server.build_spot_fields(name)), **fields}
            server.client("sagemaker").create_training_job(**request)
            created_names.append(name)

        def create_again(name: str) -> str:
            with pytest.raises(ClientError) as error:
                create(name)
            return str(error.value.response["Error"]["Code"])

        def disturb(action: Any) -> None:
            server.wait_until("a job", lambda: created_names)
            with contextlib.suppress(ClientError, OSError):  # a command for an ended job is refused
                action(generator.choice(created_names))

        def interrupt(name: str) -> None:
            server.send_command("interrupt", job=name, no_capacity_s=0.2, notice_s=generator.choice([0, 1]))

        server.client("sagemaker")  # this creates the client: boto3's sessions are not thread-safe
        with ThreadPoolExecutor(16) as pool:
            futures = [pool.submit(create, name) for name in names]
            for action in [server.stop_job] * (count // 4) + [interrupt] * (count // 4):
                futures.insert(0, pool.submit(disturb, action))
            for future in futures:
                future.result()
            assert set(pool.map(create_again, names[:20])) == {"ResourceInUse"}
        jobs = {name: server.wait_for_end(name) for name in names}
        assert list_processes(server) == [] and server.get_health()["running"] == server.get_health()["waiting"] == 0
        assert server.get_health()["cores_free"] == 32 and sum(server.get_health()["jobs"].values()) == count
        assert server.run_job("after", "print(1)")["TrainingJobStatus"] == "Completed"
    lines = [line.split() for line in runs.read_text().splitlines()]
    for name, job in jobs.items():
        assert job["TrainingJobStatus"] in ("Completed", "Stopped"), (name, job.get("FailureReason"))
        starts = sum(line[:2] == [name, "starts"] for line in lines)
        assert (
            starts
            <= list_phases(job).count("Training")
            == list_phases(job).count("Interrupted") + count_last_trainings(job)
        )
        if job["TrainingJobStatus"] == "Completed":
            assert [name, "ends"] in [line[:2] for line in lines]
    assert {job["TrainingJobStatus"] for job in jobs.values()} == {"Completed", "Stopped"}
    assert any("Interrupted" in list_phases(job) for job in jobs.values())


def count_last_trainings(description: dict[str, Any]) -> int:
    """Return 1 if the last run trained, and 0 if the job ended while it waited."""
    phases = list_phases(description)
    return int(
        "Training" in phases[max(i for i, phase in enumerate(["Interrupted", *phases]) if phase == "Interrupted") :]
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small tmpfs, and return its folder."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "leeway-test", str(folder)]
    result = subprocess.run(mount, capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(f"mounting is not permitted: {result.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


FILLS_DISK = """
import os, sys
try:
    with open({path}, "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
except OSError as error:
    print("stopped by", error.strerror, flush=True)
    sys.exit({code})
"""
FILLED = {
    "model": ('os.environ["SM_MODEL_DIR"] + "/big"', 1),
    "model-and-continues": ('os.environ["SM_MODEL_DIR"] + "/big"', 0),
    "checkpoints": ('os.environ["SM_CHECKPOINT_DIR"] + "/big"', 1),
    "log": ('"/proc/self/fd/1"', 1),
}


@pytest.mark.parametrize(
    "name",
    [
        "model",
        "log",
        pytest.param("model-and-continues", marks=pytest.mark.soak),
        pytest.param("checkpoints", marks=pytest.mark.soak),
    ],
)
def test_script_that_fills_the_disk_loses_no_earlier_data(disk: Path, run_drydock: Any, name: str) -> None:
    path, code = FILLED[name]
    with run_drydock(disk) as server:
        uri = server.put("stored", b"stored")
        server.create_job(
            name, FILLS_DISK.format(path=path, code=code), CheckpointConfig={"S3Uri": "s3://bucket/checkpoints"}
        )
        ended_job = server.wait_for_end(name)
        assert ended_job["TrainingJobStatus"] in ("Failed", "Completed")
        assert code == 0 or ended_job["TrainingJobStatus"] == "Failed"
        reason = ended_job.get("FailureReason", "")
        assert not reason or "space" in reason or "full" in reason or "ExitCode 1" in reason
        assert list_processes(server) == []
        # The next job has space again, and earlier objects are unchanged.
        server.wait_until("free space", lambda: shutil.disk_usage(disk).free > 16 << 20)
        assert server.run_job("after", "print('fine')")["TrainingJobStatus"] == "Completed"
        assert server.get(uri) == b"stored"
        server.process.kill()
        server.process.wait(60)
        (disk / "port").unlink()
    with run_drydock(disk) as server:
        assert server.describe_job(name)["TrainingJobStatus"] == ended_job["TrainingJobStatus"]
        assert server.describe_job(name).get("FailureReason") == ended_job.get("FailureReason")


@pytest.mark.soak
def test_job_runs_once_if_the_server_ends_during_its_download(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path, "--shutdown-grace", "1") as server:
        request = server.build_request("early", "print('ran')")
        server.send_command("outage", service="s3", for_s=600)
        server.client("sagemaker").create_training_job(**request)
        server.wait_until("the download", lambda: server.describe_job("early")["SecondaryStatus"] == "Downloading")
        server.process.terminate()
        assert server.process.wait(60) == 0
    (tmp_path / "port").unlink()
    with run_drydock(tmp_path) as server:
        job = server.wait_for_end("early")
        assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
        assert server.read_log("early") == ["ran", NO_MODEL], "the script runs once"


def test_failed_job_stays_failed_if_the_server_is_killed_during_its_upload(tmp_path: Path, run_drydock: Any) -> None:
    script = """
import os, pathlib, sys
pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "debug").write_text("look")
print("on", flush=True)
while not pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "go").exists():
    pass
sys.exit("no label column")
"""
    with run_drydock(tmp_path) as server:
        server.create_job("late", script, **server.build_spot_fields("late"))
        server.wait_for_line("late", "on")
        server.send_command("outage", service="s3", for_s=600)
        (server.get_job_folder("late") / "go").touch()
        server.wait_until("the upload", lambda: server.describe_job("late")["SecondaryStatus"] == "Uploading")
        server.process.kill()
        server.process.wait(60)
    (tmp_path / "port").unlink()
    with run_drydock(tmp_path) as server:
        failed_job = server.wait_for_end("late")
        assert failed_job["TrainingJobStatus"] == "Failed" and list_phases(failed_job).count("Training") == 1
        assert "ExitCode 1\n" in failed_job["FailureReason"]
        assert "no label column" in failed_job["FailureReason"]
        assert list(server.read_archive("s3://bucket/output/late/output/output.tar.gz")) == ["debug"]
