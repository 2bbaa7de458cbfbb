"""The team's stack without Docker: a DAG, a killed worker, a restarted PostgreSQL; nothing lost, nothing twice.

The tests of this module follow one another.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import requests


class Run:
    """A run of a DAG over one day."""

    def __init__(self, stack: Any, dag_id: str, day: str, gate: Path | None = None) -> None:
        self.stack, self.dag_id, self.day, self.run_id = stack, dag_id, day, f"over-{day}"
        self.rows = stack.folder / f"rows-{day}"
        self.rows.mkdir()
        (self.rows / "rows").write_text(f"rows of {day}")
        conf = {"day": day, "rows": str(self.rows), "gate": str(gate or "")}
        body = {"dag_run_id": self.run_id, "logical_date": None, "conf": conf}
        stack.call("POST", f"/dags/{dag_id}/dagRuns", json=body)

    def tasks(self) -> dict[str, dict[str, Any]]:
        where = f"/dags/{self.dag_id}/dagRuns/{self.run_id}/taskInstances"
        return {one["task_id"]: one for one in self.stack.call("GET", where)["task_instances"]}

    def state(self) -> str:
        return str(self.stack.call("GET", f"/dags/{self.dag_id}/dagRuns/{self.run_id}")["state"])

    def succeeded(self) -> bool:
        state = self.state()
        assert state != "failed", self.tasks()
        return state == "success"

    def tries(self, task_id: str) -> tuple[str, int]:
        task = self.tasks()[task_id]
        return str(task["state"]), int(task["try_number"])

    def result(self, task_id: str) -> dict[str, Any]:
        where = f"/dags/{self.dag_id}/dagRuns/{self.run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        found = self.stack.call("GET", where)["value"]
        return dict(json.loads(found) if isinstance(found, str) else found)

    def log(self, task_id: str, number: int) -> str:
        where = f"/dags/{self.dag_id}/dagRuns/{self.run_id}/taskInstances/{task_id}/logs/{number}?full_content=true"
        return str(self.stack.call("GET", where)["content"])

    def jobs(self) -> list[str]:
        """Of the training task: states of all jobs that there ever were."""
        from leeway.hooks.sagemaker.named_jobs import build_base_name

        ask = self.stack.client("sagemaker").list_training_jobs
        name = build_base_name(self.dag_id, self.run_id, "train", -1)
        return [one["TrainingJobStatus"] for one in ask(MaxResults=100, NameContains=name)["TrainingJobSummaries"]]

    def begun(self) -> bool:
        """Whether the script of the job runs."""
        from leeway.hooks.sagemaker.named_jobs import build_base_name

        logs, name = self.stack.client("logs"), build_base_name(self.dag_id, self.run_id, "train", -1)
        try:
            found = logs.filter_log_events(logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=name)
        except logs.exceptions.ResourceNotFoundException:
            return False
        return any(event["message"] == "begun" for event in found["events"])


def once(run: Run) -> None:
    """All that the run did was done, and once."""
    assert run.jobs() == ["Completed"]
    events = run.stack.call("GET", "/assets/events?limit=100")["asset_events"]
    assert [one["source_run_id"] for one in events if one["extra"].get("partition") == run.day] == [run.run_id]
    # Ingested again it is found to be what the source has: no row too few, none too many.
    told = run.stack.step("ingest", "--dataset", "flights", "--partition", run.day)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["changed"] is False
    bucket, _, key = run.result("train")["model"].removeprefix("s3://").partition("/")
    content = run.stack.client("s3", at="s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.extractfile("model").read() == f"rows of {run.day}".encode()


@pytest.fixture(scope="module")
def known(stack: Any) -> Any:
    """The stack, its DAGs there."""

    def there() -> bool:
        assert not stack.call("GET", "/importErrors")["import_errors"]
        return {one["dag_id"] for one in stack.call("GET", "/dags")["dags"]} == {"voyage", "storm"}

    stack.come_about(there)
    return stack


def test_all_services_of_the_profile_run(stack):
    wanted = {name for name, one in stack.services.items() if one.get("profiles", ["celery"]) == ["celery"]}
    assert set(stack.running) == wanted
    for service in set(stack.running) - {"init"}:
        assert stack.healthy(service), service


def test_run_comes_to_its_end(known):
    run = Run(known, "voyage", "2013-01-03")
    known.come_about(run.succeeded)
    once(run)
    assert {task: run.tries(task) for task in ("ingest", "validate")} == dict.fromkeys(
        ("ingest", "validate"), ("success", 1)
    )
    known.come_about(lambda: "rows" in run.log("ingest", 1))  # Airflow answers 404 for a moment after the task's end


def test_objects_are_in_the_store_and_not_in_drydock(known):
    kept = {one["Name"] for one in known.client("s3", at="s3").list_buckets()["Buckets"]}
    assert kept == {"leeway", "mlflow"}
    lake = known.client("s3", at="s3").list_objects_v2(Bucket="leeway", Prefix="lake/")
    assert lake["KeyCount"] > 0
    with pytest.raises(Exception, match="AWS_ENDPOINT_URL_S3"):
        known.client("s3").list_buckets()


def test_mlflow_keeps_runs_in_postgresql_and_files_in_the_store(known):
    url, where = known.url("mlflow"), "/api/2.0/mlflow"
    made = requests.post(f"{url}{where}/experiments/create", json={"name": "storm"}, timeout=60)
    assert made.ok, made.text
    sent = requests.put(f"{url}{where}-artifacts/artifacts/of/storm.txt", data=b"calm", timeout=60)
    assert sent.ok, sent.text
    kept = known.client("s3", at="s3").list_objects_v2(Bucket="mlflow")["Contents"]
    assert [one["Key"] for one in kept] == ["of/storm.txt"]
    # As its clients in the other containers call it; and as a page that a browser was lured to does.
    page = f"{url}{where}/experiments/get-by-name?experiment_name=storm"
    assert requests.get(page, headers={"Host": "mlflow:5000"}, timeout=60).ok
    assert requests.get(page, headers={"Host": "evil.example"}, timeout=60).status_code == 403


def test_killed_worker_and_restarted_database_lose_nothing(known, tmp_path):
    gate = tmp_path / "gate"
    waits = Run(known, "storm", "2013-01-04", gate)
    known.come_about(waits.begun)
    # In the middle of their steps, or about to be.
    others = [Run(known, "voyage", day) for day in ("2013-01-05", "2013-01-06")]
    begun = ("running", "success")  # a step may be over before this process, which is short of time, has seen it run
    known.come_about(lambda: any(run.tasks()["ingest"]["state"] in begun for run in others))
    known.kill("worker")
    known.start("worker")
    known.come_about(lambda: waits.tries("train") == ("running", 2))
    known.stop("postgres")
    known.start("postgres")
    gate.touch()
    for run in (waits, *others):
        known.come_about(run.succeeded, 400)
        once(run)
    assert waits.tries("ingest") == waits.tries("validate") == ("success", 1)
    page = f"{known.url('mlflow')}/api/2.0/mlflow/experiments/get-by-name?experiment_name=storm"
    assert requests.get(page, timeout=60).ok


def test_no_secret_is_in_a_log(known):
    secrets = [value for name, value in known.secrets.items() if name != "COMPOSE_PROFILES"]
    texts = {str(path): path.read_text(errors="replace") for path in known.folder.rglob("*.log")}
    assert len(texts) > 10
    assert [(path, name) for path, text in texts.items() for name in secrets if name in text] == []


def test_upgrade_runs_init_again(known):
    known.start("init")
    assert known.call("GET", "/version")["version"]


def test_check_of_a_service_that_is_down_fails(known):
    known.stop("worker")
    known.kill("mlflow")
    assert not known.healthy("mlflow")
    assert not known.healthy("worker")
