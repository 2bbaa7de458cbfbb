"""Test models that never answer: the process is replaced, and the next requests are answered."""

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

OPTIONS = ("--stop-grace", "1", "--shutdown-grace", "1", "--invocation-timeout", "4")


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory, start_drydock: Any, make_client: Any) -> Iterator[Any]:
    """Return the calls, for a server whose models must answer within four seconds."""
    with start_drydock(tmp_path_factory.mktemp("impatient"), *OPTIONS) as server:
        yield make_client(server)


@contextlib.contextmanager
def pause(pid: int, start_s: float, end_s: float) -> Iterator[None]:
    """Let a process do nothing for a while, which begins and ends so many seconds after this call."""
    timers = [threading.Timer(start_s, os.kill, (pid, signal.SIGSTOP))]
    timers += [threading.Timer(end_s, os.kill, (pid, signal.SIGCONT))]
    for timer in timers:
        timer.start()
    yield
    for timer in timers:
        timer.join()


def wait_for_answer(client: Any, endpoint: str) -> tuple[dict[str, Any], int]:
    """Invoke an endpoint until its model answers: on a slow machine, the new process starts later than the limit.

    Returns:
        The answer, and how many requests had no answer in time.
    """
    for count in itertools.count():
        with contextlib.suppress(ClientError):
            return client.invoke(endpoint), count
        assert count < 30, f"no answer of {endpoint}"
    raise AssertionError


def test_process_of_a_request_without_an_answer_is_replaced(impatient: Any) -> None:
    impatient.create_endpoint("hangs")
    before, health = impatient.invoke("hangs")["pid"], impatient.server.get_health()
    with (
        pytest.raises(ClientError, match=r"ModelError.*timed out while waiting for a response from container primary"),
        pause(before, start_s=2.0, end_s=5.0),  # as on a loaded machine: the process is late
    ):
        impatient.invoke("hangs", "wait 1000")
    answer, late_count = wait_for_answer(impatient, "hangs")
    assert answer["pid"] != before
    new_health = impatient.server.get_health()
    assert new_health["instance_restarts"] == health["instance_restarts"] + 1
    assert new_health["invocation_timeouts"] == health["invocation_timeouts"] + 1 + late_count
    log = impatient.server.read_full_log("main", "/aws/sagemaker/Endpoints/hangs")
    assert any(line.startswith("Timeout (0:00:04)") for line in log)
    assert any("inference.py" in line and "transform_fn" in line for line in log), "where the model was"


@pytest.mark.soak
def test_request_that_takes_a_little_less_is_answered_by_the_same_process(impatient: Any) -> None:
    impatient.create_endpoint("slow")
    pids = {impatient.invoke("slow", f"wait {wait_s}")["pid"] for wait_s in (0, 2, 0)}
    time.sleep(2.5)  # the limit of the slow request has passed
    assert pids == {impatient.invoke("slow")["pid"]}


def test_request_that_nobody_waits_for_any_more_does_not_reach_the_model(impatient: Any) -> None:
    impatient.create_endpoint("queue")
    errors: list[str] = []

    def invoke(text: str) -> None:
        try:
            impatient.invoke("queue", text)
        except ClientError as error:
            errors.append(str(error))

    pid = impatient.invoke("queue")["pid"]
    threads = [threading.Thread(target=invoke, args=(f"wait 2.{number}",)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 3, "the model answers one of them within the limit"
    assert impatient.invoke("queue")["pid"] == pid, "the process is not stuck, so it stays"


@pytest.mark.soak
def test_process_that_does_not_respond_is_replaced(impatient: Any) -> None:
    impatient.create_endpoint("stopped")
    before, modified = impatient.invoke("stopped")["pid"], impatient.describe("stopped")["LastModifiedTime"]
    os.kill(before, signal.SIGSTOP)
    with pytest.raises(ClientError, match="timed out"):
        impatient.invoke("stopped")
    answer, _ = wait_for_answer(impatient, "stopped")
    assert answer["pid"] != before
    assert impatient.describe("stopped")["LastModifiedTime"] == modified, "a restart is no change of the endpoint"
