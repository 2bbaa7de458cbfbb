"""Scripts, requests and moments that nobody wishes for: a true state, a reason that helps, and nothing left running."""

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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from botocore.exceptions import ClientError

from drydock.execution import strays

NO_MODEL = "No model artifact is saved under path /opt/ml/model."
MUCH_MEMORY = 300_000_000
WAITS = """
import os, pathlib, time
pathlib.Path(os.environ["SM_MODEL_DIR"], "m").write_text("1")
print("on", flush=True)
while not pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "go").exists():
    time.sleep(0.02)
"""
DEAF = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("pid", os.getpid(), flush=True)
while True:
    time.sleep(0.05)
"""


def left_running(drydock: Any) -> list[str]:
    """Return the processes of any tree of the server."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if any(tree.is_relative_to(drydock.data.resolve()) for tree in strays.read_host_trees(process)):
                found.append(f"{process.pid} {process.cmdline()}")
    return found


def files(drydock: Any, pattern: str) -> list[str]:
    """Return the names of the server's files that match. Unlike rglob it does not mind a folder that goes meanwhile."""
    return fnmatch.filter([name for _, _, names in os.walk(drydock.data) for name in names], pattern)


def phases(description: dict[str, Any]) -> list[str]:
    return [line["Status"] for line in description["SecondaryStatusTransitions"]]


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test the module's server is well, and nothing of any job is alive, nor noted as if it were."""
    yield
    if "drydock" in request.fixturenames:
        drydock = request.getfixturevalue("drydock")
        assert drydock.get_health()["status"] == "ok"
        assert left_running(drydock) == []
        assert not files(drydock, "*.process.json")


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
        "import os, sys; os.mkfifo(os.environ['SM_OUTPUT_DIR'] + '/failure'); sys.exit('said in the log')",
        "ExitCode 1\n",
        "said in the log",
    ),
    "no-tree-and-fails": (
        "import os, shutil, sys\nshutil.rmtree(os.environ['SAGEMAKER_BASE_DIR'], ignore_errors=True)\nsys.exit('gone')",
        "ExitCode 1\n",
        "gone",
    ),
}


@pytest.mark.parametrize("name", FAILS)
def test_reports_a_failed_script(drydock: Any, name: str) -> None:
    script, code, said = FAILS[name]
    failed = drydock.run_job(name, script)
    assert failed["TrainingJobStatus"] == failed["SecondaryStatus"] == "Failed"
    assert phases(failed) == ["Starting", "Downloading", "Training", "Uploading", "Failed"]
    reason = failed["FailureReason"]
    assert reason.startswith("AlgorithmError: ") and code in reason and said in reason and len(reason) <= 1024
    assert "ModelArtifacts" not in failed


COMPLETES = {
    "no-model": "print('nothing to keep')",
    "no-tree": "import os, shutil; shutil.rmtree(os.environ['SAGEMAKER_BASE_DIR'], ignore_errors=True)",
    "no-model-folder": "import os; os.rmdir(os.environ['SM_MODEL_DIR'])",
    "no-output-folder": "import os, shutil; shutil.rmtree(os.environ['SM_OUTPUT_DIR'])",
    "only-a-fifo": "import os; os.mkfifo(os.environ['SM_MODEL_DIR'] + '/fifo')",
    "only-a-way-out": "import os; os.symlink('/etc', os.environ['SM_MODEL_DIR'] + '/etc')",
}


@pytest.mark.parametrize("name", COMPLETES)
def test_a_script_without_a_model_completes(drydock: Any, name: str) -> None:
    done = drydock.run_job(name, COMPLETES[name])
    assert done["TrainingJobStatus"] == "Completed", done.get("FailureReason")
    lines = drydock.read_log(name)
    assert NO_MODEL in lines or any(line.startswith("not in model.tar.gz") for line in lines)


def test_a_model_folder_that_is_a_file(drydock: Any) -> None:
    script = "import os; os.rmdir(os.environ['SM_MODEL_DIR']); open(os.environ['SM_MODEL_DIR'], 'w').write('model')"
    failed = drydock.run_job("model-is-a-file", script)
    assert failed["TrainingJobStatus"] == "Failed"
    assert "/opt/ml/model" in failed["FailureReason"], failed["FailureReason"]


LOG_HARMS = {
    "unlinks": "os.unlink(log)",
    "renames": "os.rename(log, log + '.old')",
    "chmods": "os.chmod(log, 0)",
    "truncates": "os.truncate(log, 0)",
    "replaces-by-a-fifo": "os.unlink(log); os.mkfifo(log)",
    "replaces-by-a-folder": "os.unlink(log); os.mkdir(log)",
}


@pytest.mark.parametrize("name", LOG_HARMS)
def test_a_script_may_damage_its_log(drydock: Any, name: str) -> None:
    script = f"""
import os, pathlib, time
log = os.readlink("/proc/self/fd/1")
print("before", flush=True)
while not pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "go").exists():
    time.sleep(0.02)
{LOG_HARMS[name]}
print("after", flush=True)
time.sleep(0.4)
pathlib.Path(os.environ["SM_MODEL_DIR"], "m").write_text("1")
"""
    drydock.create_job(f"log-{name}", script)
    drydock.wait_for_line(f"log-{name}", "before")  # what is read is kept, whatever becomes of the file
    (drydock.get_job_folder(f"log-{name}") / "go").touch()
    done = drydock.wait_for_end(f"log-{name}")
    assert done["TrainingJobStatus"] == "Completed", done.get("FailureReason")
    assert "before" in drydock.read_log(f"log-{name}")


def rss(drydock: Any) -> int:
    return int(psutil.Process(drydock.process.pid).memory_info().rss)


def events(drydock: Any, name: str) -> Iterator[list[str]]:
    """Yield the job's log page by page."""
    logs, group = drydock.client("logs"), "/aws/sagemaker/TrainingJobs"
    (stream,) = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{name}/")["logStreams"]
    asked = {"logGroupName": group, "logStreamName": stream["logStreamName"], "startFromHead": True}
    page = logs.get_log_events(**asked)
    while page["events"]:
        yield [event["message"] for event in page["events"]]
        page = logs.get_log_events(**asked, nextToken=page["nextForwardToken"])


def test_a_script_that_prints_100_megabytes(drydock: Any) -> None:
    before = most = rss(drydock)
    drydock.create_job("loud", "line = 'x' * 999\nfor n in range(100_000):\n    print(line)\nprint('the end')")
    while (found := drydock.describe_job("loud"))["TrainingJobStatus"] == "InProgress":
        most = max(most, rss(drydock))
        time.sleep(0.1)
    assert found["TrainingJobStatus"] == "Completed"
    assert most - before < MUCH_MEMORY
    pages = list(events(drydock, "loud"))
    assert len(pages) > 90 and pages[-1][-2:] == ["the end", NO_MODEL]
    assert sum(page.count("x" * 999) for page in pages) == 100_000


def test_a_script_that_prints_one_line_of_10_megabytes(drydock: Any) -> None:
    before = rss(drydock)
    done = drydock.run_job("long-line", "print('x' * 10_000_000, end='')")
    assert done["TrainingJobStatus"] == "Completed"
    assert sum(line.count("x") for page in events(drydock, "long-line") for line in page) == 10_000_000
    assert rss(drydock) - before < MUCH_MEMORY


def test_a_script_that_ignores_a_stop_is_killed(drydock: Any) -> None:
    drydock.create_job("deaf-stop", DEAF)
    pid = int(drydock.wait_for_line("deaf-stop", "pid").split()[1])
    drydock.stop_job("deaf-stop")
    stopped = drydock.wait_for_end("deaf-stop")
    assert stopped["TrainingJobStatus"] == "Stopped" and "FailureReason" not in stopped
    assert not drydock.is_alive(pid) and left_running(drydock) == []


def test_a_script_that_ignores_an_interruption_is_killed(drydock: Any) -> None:
    drydock.create_job("deaf-spot", DEAF, **drydock.build_spot_fields("deaf-spot"))
    pid = int(drydock.wait_for_line("deaf-spot", "pid").split()[1])
    drydock.send_command("interrupt", job="deaf-spot", notice_s=0.3, capacity_back_after_s=600)
    drydock.wait_until(
        "the interruption", lambda: drydock.describe_job("deaf-spot")["SecondaryStatus"] == "Interrupted"
    )
    assert not drydock.is_alive(pid) and left_running(drydock) == []
    drydock.stop_job("deaf-spot")  # while Interrupted: it waits, so that this is its end
    assert drydock.describe_job("deaf-spot")["TrainingJobStatus"] == "Stopped"


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


@pytest.mark.parametrize("name", DAEMONS)
@pytest.mark.parametrize("code", [0, 1])
def test_daemons_end_with_their_job(drydock: Any, name: str, code: int) -> None:
    ended = drydock.run_job(
        f"daemons-{name}-{code}", f"import os, subprocess, sys, time\n{DAEMONS[name]}\nsys.exit({code})"
    )
    assert ended["TrainingJobStatus"] == ("Failed" if code else "Completed")
    assert left_running(drydock) == []


def test_checkpoints_that_lead_out_of_the_tree_are_not_copied(drydock: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not the job's")
    script = f"""
import os, shutil, time
shutil.rmtree(os.environ["SM_CHECKPOINT_DIR"])
os.symlink({str(tmp_path)!r}, os.environ["SM_CHECKPOINT_DIR"])
os.rmdir(os.environ["SM_MODEL_DIR"])
os.symlink({str(tmp_path)!r}, os.environ["SM_MODEL_DIR"])
time.sleep(0.6)
"""
    drydock.put("checkpoints/leads-out/theirs", b"1")
    failed = drydock.run_job("leads-out", script, CheckpointConfig={"S3Uri": "s3://bucket/checkpoints/leads-out"})
    assert failed["TrainingJobStatus"] == "Failed" and "/opt/ml/model is not a folder" in failed["FailureReason"]
    assert drydock.list_keys("checkpoints/leads-out/") == ["checkpoints/leads-out/theirs"]
    assert drydock.list_keys("output/leads-out/") == []


def test_foreign_files_among_the_checkpoints(drydock: Any) -> None:
    long, binary = "x" * 250, bytes(range(256))
    files = {"a b\u00e9\u2603": b"1", long: b"2", "deep/er/file": binary, "empty": b"", "marker/": b""}
    for key, body in files.items():
        drydock.put(f"checkpoints/foreign/{key}", body)
    drydock.put("checkpoints/foreign//twice", b"3")
    drydock.put("checkpoints/foreign/../up", b"4")
    drydock.put(f"checkpoints/foreign/{'y' * 300}", b"5")
    script = """
import os, pathlib
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
print("found", len(found), flush=True)
assert found["deep/er/file"] == bytes(range(256)) and found["empty"] == b"", sorted(found)
os.mkfifo(folder / "fifo")
(folder / "own").write_text("1")
"""
    done = drydock.run_job("foreign", script, CheckpointConfig={"S3Uri": "s3://bucket/checkpoints/foreign"})
    assert done["TrainingJobStatus"] == "Completed", done["FailureReason"]
    keys = drydock.list_keys("checkpoints/foreign/")
    assert "checkpoints/foreign/own" in keys and "checkpoints/foreign/fifo" not in keys
    assert {"checkpoints/foreign/../up", f"checkpoints/foreign/{'y' * 300}", "checkpoints/foreign/empty"} <= set(keys)


def bundle(*members: tuple[str, int, bytes]) -> bytes:
    """Return a source bundle of (name, type, content or target)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type = kind  # type: ignore[assignment]
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
    "cut": (bundle(SCRIPT)[:-30], "cannot unpack"),
    "up": (bundle(SCRIPT, ("../up.txt", tarfile.REGTYPE, b"x")), "OutsideDestinationError"),
    "absolute-link": (bundle(SCRIPT, ("link", tarfile.SYMTYPE, b"/etc/passwd")), "AbsoluteLinkError"),
    "link-up": (bundle(SCRIPT, ("link", tarfile.SYMTYPE, b"../../..")), "LinkOutsideDestinationError"),
    "device": (bundle(SCRIPT, ("null", tarfile.CHRTYPE, b"")), "SpecialFileError"),
    "fifo": (bundle(("train.py", tarfile.FIFOTYPE, b"")), "SpecialFileError"),
    "no-script": (bundle(("other.py", tarfile.REGTYPE, b"")), "no file train.py in sagemaker_submit_directory"),
    "script-is-a-folder": (bundle(("train.py/", tarfile.DIRTYPE, b"")), "no file train.py"),
}


@pytest.mark.parametrize("name", BUNDLES)
def test_refuses_an_invalid_source_bundle(drydock: Any, name: str) -> None:
    content, said = BUNDLES[name]
    uri = drydock.put(f"bundles/{name}.tar.gz", content)
    failed = drydock.run_job(f"bundle-{name}", HyperParameters={"sagemaker_submit_directory": uri})
    assert failed["TrainingJobStatus"] == "Failed" and phases(failed)[-2] == "Downloading"
    assert said in failed["FailureReason"], failed["FailureReason"]
    assert not files(drydock, "up.txt")


REFUSED = {
    "a thousand hyperparameters": {"HyperParameters": {f"n{n}": "1" for n in range(1_000)}},
    "a value too long": {"HyperParameters": {"a": "x" * 2_501}},
    "a name too long": {"HyperParameters": {"x" * 257: "1"}},
    "a variable that is none": {"Environment": {"A=B": "1"}},
    "a variable with a dash": {"Environment": {"A-B": "1"}},
    "too many variables": {"Environment": {f"N{n}": "1" for n in range(101)}},
    "a role that is none": {"RoleArn": "role"},
    "a role of a user": {"RoleArn": "arn:aws:iam::123456789012:user/somebody"},
    "limits the wrong way round": {
        "EnableManagedSpotTraining": True,
        "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 59},
    },
    "checkpoints elsewhere": {"CheckpointConfig": {"S3Uri": "s3://bucket/c", "LocalPath": "/etc"}},
    "checkpoints over all": {"CheckpointConfig": {"S3Uri": "s3://bucket/c", "LocalPath": "/opt/ml"}},
    "no instances": {"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 0, "VolumeSizeInGB": 1}},
    "too many instances": {"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 21, "VolumeSizeInGB": 1}},
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_that_is_refused_leaves_nothing(drydock: Any, name: str) -> None:
    request = {**drydock.build_request("refused"), **REFUSED[name]}
    with pytest.raises(ClientError) as caught:
        drydock.create_unchecked_client("sagemaker").create_training_job(**request)
    error = caught.value.response["Error"]
    assert error["Code"] == "ValidationException" and len(error["Message"]) <= 2_000
    assert "Traceback" not in error["Message"] and not drydock.get_job_folder("refused").parent.exists()


def test_accepts_a_request_of_maximum_size(drydock: Any) -> None:
    script = "import json, os; assert len(json.loads(os.environ['SM_HPS'])) == 98, os.environ['SM_HPS'][:99]"
    given = {f"n{n:02d}-\u00e9 $(x)": "x" * 400 for n in range(98)}
    names = {f"_{n:02d}{'N' * 500}": "\n\t$HOME 'x' \u2603" for n in range(100)}
    done = drydock.run_job("much", script, HyperParameters=given, Environment=names)
    assert done["TrainingJobStatus"] == "Completed", done["FailureReason"]
    # Linux lets no variable have more than 128 KiB, and SM_HPS is one.
    failed = drydock.run_job("too-much", script, HyperParameters=dict.fromkeys(given, "x" * 2_500))
    assert failed["TrainingJobStatus"] == "Failed" and "Argument list too long" in failed["FailureReason"]


ODD = {
    "nul-in-a-value": {"Environment": {"A": "a\0b"}},
    "nul-in-a-hyperparameter": {"HyperParameters": {"a": "a\0b"}},
    "no-variable": {"HyperParameters": {"a=b": "1"}},
}


@pytest.mark.parametrize("name", ODD)
def test_reports_values_that_no_process_can_have(drydock: Any, name: str) -> None:
    failed = drydock.run_job(f"odd-{name}", "print('never')", **ODD[name])
    assert failed["TrainingJobStatus"] == "Failed" and "cannot execute" in failed["FailureReason"]
    assert drydock.read_log(f"odd-{name}") == []


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONHOME", "PATH", "TMPDIR", "HOME", "DRYDOCK_TREE", "PYTHONPATH"])
def test_a_job_may_set_any_variable(drydock: Any, name: str) -> None:
    ended = drydock.run_job(f"variable-{name.replace('_', '-')}", "print(1)", Environment={name: "/nowhere"})
    assert ended["TrainingJobStatus"] in ("Completed", "Failed")
    assert ended["TrainingJobStatus"] == "Completed" or "exit code: " in ended["FailureReason"]


def while_out(attempt: Callable[[float], bool]) -> None:
    """attempt(for_s) did its part while S3 was out; where that was over before, it is tried with a longer outage."""
    assert any(attempt(for_s) for for_s in (2, 8, 32)), "none was in time"


def test_a_stop_while_downloading(drydock: Any) -> None:
    drydock.put("held/train/a.csv", b"1")
    channels = [drydock.build_channel("train", "s3://bucket/held/train/")]

    def attempt(for_s: float) -> bool:
        name = f"held-down-{for_s}"
        request = drydock.build_request(name, WAITS, InputDataConfig=channels)
        drydock.send_command("outage", service="s3", for_s=for_s)
        drydock.client("sagemaker").create_training_job(**request)
        drydock.wait_until("the download", lambda: drydock.describe_job(name)["SecondaryStatus"] != "Starting")
        drydock.stop_job(name)
        stopping = drydock.describe_job(name)["SecondaryStatus"]
        stopped = drydock.wait_for_end(name)
        if stopping != "Stopping" or "Training" in phases(stopped):
            return False
        assert phases(stopped) == ["Starting", "Downloading", "Stopping", "Stopped"]
        assert drydock.read_log(name) == [] and drydock.list_keys(f"output/{name}/") == []
        return True

    while_out(attempt)


def uploading(drydock: Any, name: str, for_s: float, **more: Any) -> None:
    """The job uploads, for as long as S3 is out; it has ended where that was shorter than a look."""
    drydock.create_job(name, WAITS, **more)
    drydock.wait_for_line(name, "on")
    drydock.send_command("outage", service="s3", for_s=for_s)
    (drydock.get_job_folder(name) / "go").touch()
    drydock.wait_until(
        "the upload", lambda: drydock.describe_job(name)["SecondaryStatus"] in ("Uploading", "Completed")
    )


def test_a_stop_while_uploading(drydock: Any) -> None:
    def attempt(for_s: float) -> bool:
        name = f"held-up-{for_s}"
        uploading(drydock, name, for_s)
        with contextlib.suppress(ClientError):  # it has ended
            drydock.stop_job(name)
        stopped = drydock.wait_for_end(name)
        if "Stopping" not in phases(stopped):
            return False
        assert phases(stopped)[-3:] == ["Uploading", "Stopping", "Stopped"]
        assert drydock.read_archive(stopped["ModelArtifacts"]["S3ModelArtifacts"]) == {"m": b"1"}
        return True

    while_out(attempt)


def test_an_interruption_while_uploading_comes_too_late(drydock: Any) -> None:
    def attempt(for_s: float) -> bool:
        name = f"too-late-{for_s}"
        uploading(drydock, name, for_s, **drydock.build_spot_fields(name))
        try:
            drydock.send_command("interrupt", job=name)
        except urllib.error.HTTPError:  # it has ended
            return False
        too_late(drydock, drydock.wait_for_end(name))
        return True

    while_out(attempt)


def too_late(drydock: Any, done: dict[str, Any]) -> None:
    assert done["TrainingJobStatus"] == "Completed" and "Interrupted" not in phases(done)
    assert drydock.read_archive(done["ModelArtifacts"]["S3ModelArtifacts"]) == {"m": b"1"}


def test_a_stop_during_the_notice_of_an_interruption(drydock: Any) -> None:
    drydock.create_job("both", DEAF, **drydock.build_spot_fields("both"))
    drydock.wait_for_line("both", "pid")
    drydock.send_command("interrupt", job="both", notice_s=1, capacity_back_after_s=600)
    drydock.stop_job("both")
    stopped = drydock.wait_for_end("both")
    assert stopped["TrainingJobStatus"] == stopped["SecondaryStatus"] == "Stopped"
    assert phases(stopped).count("Training") == 1 and left_running(drydock) == []


def test_a_long_outage_of_s3_fails_the_job(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path, "--cores", "8", "--memory-gib", "100", "--s3-patience", "5") as server:
        server.create_job("in", WAITS)
        server.wait_for_line("in", "on")
        request = server.build_request("out", WAITS)
        server.send_command("outage", service="s3", for_s=600)
        server.client("sagemaker").create_training_job(**request)
        (server.get_job_folder("in") / "go").touch()
        server.wait_until("the upload", lambda: server.describe_job("in")["SecondaryStatus"] in ("Uploading", "Failed"))
        for name, what in (("in", "Artifact upload failed: model.tar.gz"), ("out", "Artifact upload failed: s3://")):
            failed = server.wait_for_end(name)
            assert failed["TrainingJobStatus"] == "Failed" and "ModelArtifacts" not in failed
            assert what in failed["FailureReason"] and "SlowDown" in failed["FailureReason"]
        assert left_running(server) == [] and not files(server, "model.tar.gz")


LEDGER = """
import os, pathlib, random, sys, time
name = os.environ["TRAINING_JOB_NAME"]
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
with open(os.environ["LEDGER"], "a") as ledger:
    ledger.write(f"{name} starts {os.getpid()}\\n")
time.sleep(random.Random(name).uniform(0.1, 0.6))
pathlib.Path(os.environ["SM_MODEL_DIR"], "name").write_text(name)
with open(os.environ["LEDGER"], "a") as ledger:
    ledger.write(f"{name} ends {os.getpid()}\\n")
"""


@pytest.mark.parametrize("count", [60, pytest.param(200, marks=pytest.mark.soak)])
def test_a_storm_of_creates_stops_and_interruptions(tmp_path: Path, run_drydock: Any, count: int) -> None:
    ledger, chance = tmp_path / "ledger", random.Random(13)
    names = [f"storm-{number:03d}" for number in range(count)]
    known: list[str] = []
    with run_drydock(tmp_path, "--cores", "32", "--memory-gib", "1000", "--stop-grace", "1") as server:
        given = {"sagemaker_program": "train.py", "sagemaker_submit_directory": server.upload_source("storm", LEDGER)}

        def create(name: str) -> None:
            more = {"HyperParameters": given, "Environment": {"LEDGER": str(ledger)}}
            request = {**server.build_request(name, **server.build_spot_fields(name)), **more}
            server.client("sagemaker").create_training_job(**request)
            known.append(name)

        def again(name: str) -> str:
            with pytest.raises(ClientError) as caught:
                create(name)
            return str(caught.value.response["Error"]["Code"])

        def disturb(act: Any) -> None:
            server.wait_until("a job", lambda: known)
            with contextlib.suppress(ClientError, OSError):  # it has ended already: refused, in a line
                act(chance.choice(known))

        def interrupt(name: str) -> None:
            server.send_command("interrupt", job=name, capacity_back_after_s=0.2, notice_s=chance.choice([0, 1]))

        server.client("sagemaker")  # made here: boto3's sessions are not for several threads
        with ThreadPoolExecutor(16) as pool:
            work = [pool.submit(create, name) for name in names]
            for act in [server.stop_job] * (count // 4) + [interrupt] * (count // 4):
                work.insert(0, pool.submit(disturb, act))
            for one in work:
                one.result()
            assert set(pool.map(again, names[:20])) == {"ResourceInUse"}
        ended = {name: server.wait_for_end(name) for name in names}
        assert left_running(server) == [] and server.get_health()["running"] == server.get_health()["waiting"] == 0
        assert server.get_health()["cores_free"] == 32 and sum(server.get_health()["jobs"].values()) == count
        assert server.run_job("after", "print(1)")["TrainingJobStatus"] == "Completed"
    lines = [line.split() for line in ledger.read_text().splitlines()]
    for name, one in ended.items():
        assert one["TrainingJobStatus"] in ("Completed", "Stopped"), (name, one.get("FailureReason"))
        starts = sum(line[:2] == [name, "starts"] for line in lines)
        assert starts <= phases(one).count("Training") == phases(one).count("Interrupted") + starts_of_last(one)
        if one["TrainingJobStatus"] == "Completed":
            assert [name, "ends"] in [line[:2] for line in lines]
    assert {one["TrainingJobStatus"] for one in ended.values()} == {"Completed", "Stopped"}
    assert any("Interrupted" in phases(one) for one in ended.values())


def starts_of_last(description: dict[str, Any]) -> int:
    """Return 1 where the last run trained, 0 where the job waited when it ended."""
    seen = phases(description)
    return int("Training" in seen[max(i for i, phase in enumerate(["Interrupted", *seen]) if phase == "Interrupted") :])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small tmpfs."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "leeway-test", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


FULL = """
import os, sys
try:
    with open({where}, "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
except OSError as error:
    print("stopped by", error.strerror, flush=True)
    sys.exit({code})
"""
FILLED = {
    "model": ('os.environ["SM_MODEL_DIR"] + "/big"', 1),
    "model-and-goes-on": ('os.environ["SM_MODEL_DIR"] + "/big"', 0),
    "checkpoints": ('os.environ["SM_CHECKPOINT_DIR"] + "/big"', 1),
    "log": ('"/proc/self/fd/1"', 1),
}


@pytest.mark.parametrize("name", FILLED)
def test_a_script_that_fills_the_disk(disk: Path, run_drydock: Any, name: str) -> None:
    where, code = FILLED[name]
    with run_drydock(disk) as server:
        uri = server.put("kept", b"kept")
        server.create_job(
            name, FULL.format(where=where, code=code), CheckpointConfig={"S3Uri": "s3://bucket/checkpoints"}
        )
        failed = server.wait_for_end(name)
        assert failed["TrainingJobStatus"] in ("Failed", "Completed")
        assert code == 0 or failed["TrainingJobStatus"] == "Failed"
        reason = failed.get("FailureReason", "")
        assert not reason or "space" in reason or "full" in reason or "ExitCode 1" in reason
        assert left_running(server) == []
        # The next one has room again, and what was there is there.
        server.wait_until("room", lambda: shutil.disk_usage(disk).free > 16 << 20)
        assert server.run_job("after", "print('fine')")["TrainingJobStatus"] == "Completed"
        assert server.get(uri) == b"kept"
        server.process.kill()
        server.process.wait(60)
        (disk / "port").unlink()
    with run_drydock(disk) as server:
        assert server.describe_job(name)["TrainingJobStatus"] == failed["TrainingJobStatus"]
        assert server.describe_job(name).get("FailureReason") == failed.get("FailureReason")


def test_a_server_that_is_ended_while_a_job_downloads(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path, "--shutdown-grace", "1") as server:
        request = server.build_request("early", "print('ran')")
        server.send_command("outage", service="s3", for_s=600)
        server.client("sagemaker").create_training_job(**request)
        server.wait_until("the download", lambda: server.describe_job("early")["SecondaryStatus"] == "Downloading")
        server.process.terminate()
        assert server.process.wait(60) == 0
    (tmp_path / "port").unlink()
    with run_drydock(tmp_path) as server:
        done = server.wait_for_end("early")
        assert done["TrainingJobStatus"] == "Completed", done.get("FailureReason")
        assert server.read_log("early") == ["ran", NO_MODEL], "it has run once"


def test_a_server_that_is_killed_while_a_failed_job_uploads(tmp_path: Path, run_drydock: Any) -> None:
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
        failed = server.wait_for_end("late")
        assert failed["TrainingJobStatus"] == "Failed" and phases(failed).count("Training") == 1
        assert "ExitCode 1\n" in failed["FailureReason"]
        assert "no label column" in failed["FailureReason"]
        assert list(server.read_archive("s3://bucket/output/late/output/output.tar.gz")) == ["debug"]
