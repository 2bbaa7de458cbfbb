"""Test what the process of a deferred task does with its job until the trigger waits for it."""

from types import SimpleNamespace
from typing import Any

import pytest
from leeway.hooks.sagemaker import handover
from leeway.hooks.sagemaker.handover import Handover


class Jobs:
    """A task's jobs, with one live job. `waiters` are the answers about its waiting trigger, in order."""

    kind = "training"

    def __init__(self, *waiters: str) -> None:
        self.live_job_name, self.stopped_jobs, self.waiters = "job-1", [], list(waiters)  # type: ignore[var-annotated]

    def read_waiter(self, name: str) -> str:
        waiter = self.waiters.pop(0)
        if waiter == "no answer":
            raise ConnectionError(waiter)
        return waiter

    def stop(self, name: str) -> None:
        self.stopped_jobs.append(name)


class Log(list[str]):
    """The lines of a log."""

    def info(self, line: str, *values: Any) -> None:
        self.append(line % values)

    warning = info


def watch(jobs: Any, states: list[dict[str, Any]]) -> Log:
    """Watch a task that has one state after the other, and return the log."""
    log, remaining = Log(), list(states)
    task = SimpleNamespace(dag_id="dag", run_id="run", task_id="train", map_index=-1, id="try-1")
    task.get_task_states = lambda **_: remaining.pop(0) if len(remaining) > 1 else remaining[0]
    Handover(jobs, task, log).before_stopping(None)
    return log


def build_state(state: str | None) -> dict[str, Any]:
    return {"run": {"train": state}}


DEFERRED = build_state("deferred")


@pytest.fixture(autouse=True)
def _check_without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "CHECK_INTERVAL_S", 0.0)


@pytest.mark.parametrize("end", [*map(build_state, ("failed", "success", "skipped", "upstream_failed")), {}])
def test_job_of_a_task_that_was_marked_or_deleted_is_stopped(end: dict[str, Any]) -> None:
    for states in ([end], [DEFERRED, DEFERRED, end]):
        jobs = Jobs("", "")
        assert "stopping training job job-1" in watch(jobs, states)[0]
        assert jobs.stopped_jobs == ["job-1"]


@pytest.mark.parametrize("state", [None, "scheduled", "queued", "running", "up_for_retry"])
def test_job_of_a_task_that_runs_again_is_not_stopped(state: str | None) -> None:
    """After a clear, the next try finds the job."""
    jobs = Jobs("")
    assert watch(jobs, [DEFERRED, build_state(state)]) == []
    assert jobs.stopped_jobs == []


def test_watch_ends_when_a_trigger_of_this_try_waits() -> None:
    jobs = Jobs("", "try-0/trigger", "no answer", "try-1/trigger")
    assert len(watch(jobs, [DEFERRED])) == 1
    assert (jobs.stopped_jobs, jobs.waiters) == ([], [])
    assert jobs.live_job_name == "", "a signal to the process does not stop the job any more"


def test_watch_without_a_triggerer_ends_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "LONGEST_WATCH_S", 0.2)
    jobs = Jobs(*[""] * 100_000)
    assert "no triggerer waits for training job job-1 yet" in watch(jobs, [DEFERRED])[-1]
    assert jobs.stopped_jobs == []


def test_only_a_process_of_one_task_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """`dag.test()` starts the trigger in the same process, after the task."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.listener import get_listener_manager

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", object(), raising=False)
    hand_over = Handover(Jobs(), SimpleNamespace(), Log())  # type: ignore[arg-type]
    hand_over.begin()
    assert not get_listener_manager().pm.is_registered(hand_over)
