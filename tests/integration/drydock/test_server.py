"""Test the server as a process: its start and end, its queue of jobs, and two servers at once."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.tools import forking
from tests.tools.processes import is_alive

SLEEPER = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("pids", os.getpid(), child.pid)
time.sleep(600)
"""
# It runs until its folder has a file called go.
WAITER = """
import os, pathlib, time
print("on")
while not pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "go").exists():
    time.sleep(0.02)
"""


def run_program(*arguments: str, cwd: Path, is_real: bool = False) -> subprocess.CompletedProcess[str]:
    """Run `python -m drydock` to its end; with `is_real`, in a new Python process that is not forked."""
    run: Any = subprocess.run if is_real else forking.run
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    result: subprocess.CompletedProcess[str] = run(
        [sys.executable, "-m", "drydock", *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    return result


def test_help_names_the_options(tmp_path: Path) -> None:
    result = run_program("--help", cwd=tmp_path, is_real=True)
    assert result.returncode == 0
    assert "--port-file" in result.stdout and "--data" in result.stdout


@pytest.mark.parametrize("arguments", [["--port", "99999"], ["--cores", "0"], ["--no-such-option"]])
def test_wrong_options_give_exit_code_2(tmp_path: Path, arguments: list[str]) -> None:
    result = run_program(*arguments, cwd=tmp_path)
    assert result.returncode == 2 and "Traceback" not in result.stderr


def test_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result = run_program("--port", str(listener.getsockname()[1]), cwd=tmp_path)
    assert result.returncode == 75
    assert result.stderr.startswith("drydock: cannot listen on 127.0.0.1:")
    assert len(result.stderr.splitlines()) == 1


def test_two_servers_can_share_a_machine_but_not_a_folder(tmp_path: Path, run_drydock: Any) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with run_drydock(tmp_path / "a") as first, run_drydock(tmp_path / "b") as second:
        assert first.url != second.url
        first.run_job("same-name", "print('first')")
        second.run_job("same-name", "print('second')")
        assert first.wait_for_line("same-name", "first") and second.wait_for_line("same-name", "second")
        result = run_program("--port", "0", "--data", str(first.data), cwd=tmp_path)
        assert result.returncode == 75
        assert "in use by another drydock" in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_jobs_end_with_the_server(tmp_path: Path, run_drydock: Any, number: signal.Signals) -> None:
    with run_drydock(tmp_path, "--shutdown-grace", "1") as server:
        server.wait_until(
            "its first line", lambda: f"drydock answers at {server.url}\n" in (tmp_path / "log").read_text()
        )
        server.create_job("sleeper", SLEEPER)
        pids = [int(pid) for pid in server.wait_for_line("sleeper", "pids").split()[1:]]
        assert all(is_alive(pid) for pid in pids)
        server.process.send_signal(number)
        assert server.process.wait(60) == 0
        assert not any(is_alive(pid) for pid in pids)


def test_unexpected_end_of_the_server_fails_the_test_with_its_log(tmp_path: Path, run_drydock: Any) -> None:
    """This is the negative control of all tests with a server."""

    def kill_server() -> None:
        with run_drydock(tmp_path) as server:
            server.wait_until("its first line", (tmp_path / "log").read_text)
            os.kill(server.process.pid, signal.SIGKILL)
            server.wait_until("its end", lambda: not is_alive(server.process.pid))

    with pytest.raises(AssertionError, match=r"drydock ended with exit code -9:\s+drydock answers at"):
        kill_server()


def test_signal_to_any_thread_ends_the_server(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path) as server:
        pid = server.process.pid
        thread_id = next(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if int(task.name) != pid)
        assert ctypes.CDLL(None).tgkill(pid, thread_id, int(signal.SIGTERM)) == 0
        assert server.process.wait(30) == 0


def test_next_server_kills_leftover_processes(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path) as server:
        server.create_job("orphan", SLEEPER)
        pids = [int(pid) for pid in server.wait_for_line("orphan", "pids").split()[1:]]
        server.process.kill()
        server.process.wait(60)
        assert all(is_alive(pid) for pid in pids)
    (tmp_path / "port").unlink()
    with run_drydock(tmp_path) as server:
        assert not any(is_alive(pid) for pid in pids)
        job = server.describe_job("orphan")
        assert job["TrainingJobStatus"] == "Failed" and "only spot jobs resume" in job["FailureReason"]


def test_jobs_wait_in_order_for_cores_and_memory(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path, "--cores", "2") as server:
        names = ["job-1", "job-2", "job-3", "job-4"]
        for name in names:
            server.create_job(name, WAITER)
        server.wait_for_line("job-1", "on")
        waiting_job = server.describe_job("job-2")
        assert (waiting_job["TrainingJobStatus"], waiting_job["SecondaryStatus"]) == ("InProgress", "Starting")
        assert "Waiting for cores" in waiting_job["SecondaryStatusTransitions"][-1]["StatusMessage"]
        assert server.get_health()["waiting"] == 3 and server.get_health()["running"] == 1

        server.stop_job("job-2")
        stopped_job = server.describe_job("job-2")
        assert stopped_job["TrainingJobStatus"] == "Stopped" and "TrainingStartTime" not in stopped_job
        assert not server.get_job_folder("job-2").exists() and server.read_log("job-2") == []

        for name in ("job-1", "job-3", "job-4"):
            server.wait_for_line(name, "on")
            (server.get_job_folder(name) / "go").touch()
        starts = [server.wait_for_end(name)["TrainingStartTime"] for name in ("job-1", "job-3", "job-4")]
        assert starts == sorted(starts)


def test_health_counts_jobs_and_its_path_hides_no_object(drydock: Any) -> None:
    health = drydock.get_health()
    assert health["version"] and set(health["jobs"]) == {
        "InProgress",
        "Stopping",
        "Completed",
        "Failed",
        "Stopped",
    }
    drydock.run_job("counted")
    assert drydock.get_health()["jobs"]["Completed"] == health["jobs"]["Completed"] + 1
    drydock.client("s3").create_bucket(Bucket="drydock")
    drydock.client("s3").put_object(Bucket="drydock", Key="health", Body=b"an object")
    assert drydock.get("s3://drydock/health") == b"an object"


def test_reset_of_moto_stops_running_jobs(drydock: Any) -> None:
    drydock.create_job("before-reset", SLEEPER)
    pids = [int(pid) for pid in drydock.wait_for_line("before-reset", "pids").split()[1:]]
    urllib.request.urlopen(urllib.request.Request(f"{drydock.url}/moto-api/reset", method="POST")).close()
    drydock.wait_until("the job's end", lambda: not any(is_alive(pid) for pid in pids))
    drydock.client("s3").create_bucket(Bucket="bucket")
    # The name is another one: the old job's thread may still use the folder of its name.
    assert drydock.run_job("after-reset", "print('again')")["TrainingJobStatus"] == "Completed"
    summaries = drydock.client("sagemaker").list_training_jobs()["TrainingJobSummaries"]
    assert [summary["TrainingJobName"] for summary in summaries] == ["after-reset"]


@pytest.mark.parametrize(("origin", "status"), [("http://a-web-page.example", 403), (None, 400), ("own", 400)])
def test_request_of_a_web_page_is_refused(drydock: Any, origin: str | None, status: int) -> None:
    headers = {} if origin is None else {"Origin": drydock.url if origin == "own" else origin}
    assert drydock.send_raw("CreateTrainingJob", b"{}", **headers)[0] == status


def test_error_response_to_head_ends_with_its_headers(drydock: Any) -> None:
    """A client takes what follows for the next response: DVC reported "Data after Connection: close"."""
    host, port = drydock.url.removeprefix("http://").split(":")
    drydock.send_command("outage", service="s3", operation="HEAD", times=1)
    scope = "Credential=x/20250101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    for status in (b"503", b"404"):  # the outage's response and moto's
        with socket.create_connection((host, int(port))) as connection:
            head = (
                f"HEAD /bucket/none HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: AWS4-HMAC-SHA256 {scope}\r\n\r\n"
            )
            connection.sendall(head.encode())
            with connection.makefile("rb") as stream:
                response = stream.read()
        assert status in response.split(b"\r\n")[0]
        assert b"content-length: " in response.lower() and response.endswith(b"\r\n\r\n")
        assert response.count(b"\r\n\r\n") == 1
