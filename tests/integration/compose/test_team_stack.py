"""Test the team's stack without Docker: a killed worker and a restarted PostgreSQL lose and repeat nothing.

The tests of this module run in order, on the same stack.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

if TYPE_CHECKING:
    from tests.integration.compose.conftest import Stack

pytestmark = pytest.mark.soak


class Run:
    """A run of a DAG over one day."""

    def __init__(self, stack: Stack, dag_id: str, day: str, release_file: Path | None = None) -> None:
        self.stack, self.dag_id, self.day, self.run_id = stack, dag_id, day, f"run-{day}"
        self.rows = stack.folder / f"rows-{day}"
        self.rows.mkdir()
        (self.rows / "rows").write_text(f"rows of {day}")
        conf = {"day": day, "rows": str(self.rows), "release_file": str(release_file or "")}
        body = {"dag_run_id": self.run_id, "logical_date": None, "conf": conf}
        stack.call_api("POST", f"/dags/{dag_id}/dagRuns", json=body)

    def get_tasks(self) -> dict[str, dict[str, Any]]:
        """Return the task instances by task ID."""
        path = f"/dags/{self.dag_id}/dagRuns/{self.run_id}/taskInstances"
        return {task["task_id"]: task for task in self.stack.call_api("GET", path)["task_instances"]}

    def get_state(self) -> str:
        """Return the state of the run."""
        return str(self.stack.call_api("GET", f"/dags/{self.dag_id}/dagRuns/{self.run_id}")["state"])

    def has_succeeded(self) -> bool:
        """Return whether the run has succeeded; fail if it has failed."""
        state = self.get_state()
        assert state != "failed", self.get_tasks()
        return state == "success"

    def get_try(self, task_id: str) -> tuple[str, int]:
        """Return the state of a task and the number of its try."""
        task = self.get_tasks()[task_id]
        return str(task["state"]), int(task["try_number"])

    def get_result(self, task_id: str) -> dict[str, Any]:
        """Return the result of a task."""
        path = f"/dags/{self.dag_id}/dagRuns/{self.run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        value = self.stack.call_api("GET", path)["value"]
        return dict(json.loads(value) if isinstance(value, str) else value)

    def get_log(self, task_id: str, try_number: int) -> str:
        """Return the log of a try of a task."""
        path = f"/dags/{self.dag_id}/dagRuns/{self.run_id}/taskInstances/{task_id}/logs/{try_number}?full_content=true"
        return str(self.stack.call_api("GET", path)["content"])

    def list_job_states(self) -> list[str]:
        """List the states of all jobs of the training task, old ones included."""
        from leeway.hooks.sagemaker.named_jobs import build_base_name

        list_jobs = self.stack.create_client("sagemaker").list_training_jobs
        name = build_base_name(self.dag_id, self.run_id, "train", -1)
        summaries = list_jobs(MaxResults=100, NameContains=name)["TrainingJobSummaries"]
        return [summary["TrainingJobStatus"] for summary in summaries]

    def has_job_started(self) -> bool:
        """Return whether the script of the training job runs."""
        from leeway.hooks.sagemaker.named_jobs import build_base_name

        logs, name = self.stack.create_client("logs"), build_base_name(self.dag_id, self.run_id, "train", -1)
        try:
            page = logs.filter_log_events(logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=name)
        except logs.exceptions.ResourceNotFoundException:
            return False
        return any(event["message"] == "started" for event in page["events"])


def assert_done_once(run: Run) -> None:
    """Assert that all work of the run was done, and only once."""
    assert run.list_job_states() == ["Completed"]
    events = run.stack.call_api("GET", "/assets/events?limit=100")["asset_events"]
    day_events = [event for event in events if event["extra"].get("partition") == run.day]
    assert [event["source_run_id"] for event in day_events] == [run.run_id]
    # A repeated ingestion finds the same rows as in the source: none is missing, none is duplicated.
    result = run.stack.run_step("ingest", "--dataset", "flights", "--partition", run.day)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["changed"] is False
    bucket, _, key = run.get_result("train")["model"].removeprefix("s3://").partition("/")
    content = run.stack.create_client("s3", server="s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.extractfile("model").read() == f"rows of {run.day}".encode()


@pytest.fixture(scope="module")
def stack_with_dags(stack: Stack) -> Stack:
    """Return the stack as soon as Airflow has parsed the DAGs."""

    def has_dags() -> bool:
        assert not stack.call_api("GET", "/importErrors")["import_errors"]
        return {dag["dag_id"] for dag in stack.call_api("GET", "/dags")["dags"]} == {"deferred", "waiting"}

    stack.wait_until(has_dags)
    return stack


def test_all_services_of_the_profile_run(stack: Stack) -> None:
    profiles = {name: service.get("profiles", ["celery"]) for name, service in stack.services.items()}
    assert set(stack.processes) == {name for name, names in profiles.items() if names == ["celery"]}
    for service in set(stack.processes) - {"init"}:
        assert stack.is_healthy(service), service


def test_run_succeeds(stack_with_dags: Stack) -> None:
    stack = stack_with_dags
    run = Run(stack, "deferred", "2013-01-03")
    stack.wait_until(run.has_succeeded)
    assert_done_once(run)
    assert {task: run.get_try(task) for task in ("ingest", "validate")} == dict.fromkeys(
        ("ingest", "validate"), ("success", 1)
    )
    stack.wait_until(
        lambda: "rows" in run.get_log("ingest", 1)
    )  # Airflow answers 404 for a moment after the task's end


def test_page_shows_what_another_service_read_from_the_lake(stack_with_dags: Stack) -> None:
    """The API server has neither the lake's address nor a library that reads it."""
    stack = stack_with_dags

    def list_published() -> list[str]:
        partitions = stack.call("GET", "/leeway/documents/data/flights")["partitions"]
        return [item["partition"] for item in partitions if item["state"] == "published"]

    stack.wait_until(lambda: "2013-01-03" in list_published())
    models = stack.call("GET", "/leeway/documents/models")["models"]
    assert [model["model"] for model in models] == ["flight_delay", "flight_status", "flights"]


def test_objects_are_in_the_store_and_not_in_drydock(stack_with_dags: Stack) -> None:
    store = stack_with_dags.create_client("s3", server="s3")
    assert {bucket["Name"] for bucket in store.list_buckets()["Buckets"]} == {"leeway", "mlflow"}
    assert store.list_objects_v2(Bucket="leeway", Prefix="lake/")["KeyCount"] > 0
    with pytest.raises(Exception, match="AWS_ENDPOINT_URL_S3"):
        stack_with_dags.create_client("s3").list_buckets()


def test_mlflow_stores_runs_in_postgresql_and_files_in_the_store(stack_with_dags: Stack) -> None:
    url, path = stack_with_dags.get_url("mlflow"), "/api/2.0/mlflow"
    response = requests.post(f"{url}{path}/experiments/create", json={"name": "experiment"}, timeout=180)
    assert response.ok, response.text
    response = requests.put(f"{url}{path}-artifacts/artifacts/folder/file.txt", data=b"text", timeout=180)
    assert response.ok, response.text
    objects = stack_with_dags.create_client("s3", server="s3").list_objects_v2(Bucket="mlflow")["Contents"]
    assert [item["Key"] for item in objects] == ["folder/file.txt"]
    # The first host is the name that the other containers use. The second is what a malicious page could make a
    # browser send.
    page = f"{url}{path}/experiments/get-by-name?experiment_name=experiment"
    assert requests.get(page, headers={"Host": "mlflow:5000"}, timeout=180).ok
    assert requests.get(page, headers={"Host": "evil.example"}, timeout=180).status_code == 403


def test_killed_worker_and_restarted_database_lose_nothing(stack_with_dags: Stack, tmp_path: Path) -> None:
    stack, release_file = stack_with_dags, tmp_path / "release"
    waiting_run = Run(stack, "waiting", "2013-01-04", release_file)
    stack.wait_until(waiting_run.has_job_started)
    # The worker is killed while their steps run, or just before.
    other_runs = [Run(stack, "deferred", day) for day in ("2013-01-05", "2013-01-06")]
    started_states = ("running", "success")  # on a loaded machine a step may end before this process has seen it run
    stack.wait_until(lambda: any(run.get_tasks()["ingest"]["state"] in started_states for run in other_runs))
    stack.kill("worker")
    stack.start("worker")
    stack.wait_until(lambda: waiting_run.get_try("train") == ("running", 2))
    stack.stop("postgres")
    stack.start("postgres")
    release_file.touch()
    for run in (waiting_run, *other_runs):
        stack.wait_until(run.has_succeeded, 400)
        assert_done_once(run)
    assert waiting_run.get_try("ingest") == waiting_run.get_try("validate") == ("success", 1)
    page = f"{stack.get_url('mlflow')}/api/2.0/mlflow/experiments/get-by-name?experiment_name=experiment"
    assert requests.get(page, timeout=180).ok


def test_no_log_has_a_secret(stack_with_dags: Stack) -> None:
    secrets = [value for name, value in stack_with_dags.secrets.items() if name != "COMPOSE_PROFILES"]
    texts = {str(path): path.read_text(errors="replace") for path in stack_with_dags.folder.rglob("*.log")}
    assert len(texts) > 10
    assert [(path, secret) for path, text in texts.items() for secret in secrets if secret in text] == []


def test_init_can_run_again_for_an_upgrade(stack_with_dags: Stack) -> None:
    stack_with_dags.start("init")
    assert stack_with_dags.call_api("GET", "/version")["version"]


def test_health_check_of_a_stopped_service_fails(stack_with_dags: Stack) -> None:
    stack_with_dags.stop("worker")
    stack_with_dags.kill("mlflow")
    assert not stack_with_dags.is_healthy("mlflow")
    assert not stack_with_dags.is_healthy("worker")
