"""The main job on real flights, as a person runs it, but small. The tests of this module follow one another."""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
import yaml

from stack.airflow.client import AirflowClient
from stack.errors import RequestError
from tests.tools import forking
from tests.tools.policies import EASY
from tests.tools.waiting import wait_until

ROOT = Path(__file__).parents[2]
PARTS = (
    "dags",
    "plugins",
    "pipelines",
    "expectations",
    "stack",
    "drydock",
    "params.yaml",
    "dvc.yaml",
    ".dvc",
    ".dvcignore",
)
DEMO = ("-m", "stack", "demo", "--from", "2013-01-26", "--to", "2013-01-30", "--as-of", "2013-02-01")
FOREIGN = ("LEEWAY_", "AIRFLOW_", "MLFLOW_", "AWS_", "DVC_")
EVENTS = """
from pipelines.registry.lifecycle import Journal
print([(str(one.kind), one.who, one.why) for one in Journal.open().state("flights").events])
"""
ENDED = ("success", "failed", "skipped", "upstream_failed")
LINEAGE = (
    *("git_commit", "as_of", "window", "table", "snapshot_id", "data_version", "dvc_lock", "rows_train"),
    *("rows_holdout", "model_digest", "training_job", "training_job_arn", "billable_s", "instance_type", "dag_run"),
    *("verdict", "verdict_reason", "verdict_digest", "promoted_at", "promoted_over", "candidate"),
)


class Checkout:
    """A clone of the project with small windows, and what its commands leave behind."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / ".leeway"

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        programs = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
        env = {**kept, "PYTHONPATH": str(self.folder), "PATH": programs, **more}
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=580)

    def python(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, *arguments, **more)

    def git(self, *arguments: str) -> str:
        answer = self.run("git", "-c", "user.name=e2e", "-c", "user.email=e2e@localhost", *arguments)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.strip()

    def params(self, **sections: dict[str, Any]) -> None:
        path = self.folder / "params.yaml"
        have = yaml.safe_load(path.read_text())
        for name, values in sections.items():
            have[name].update(values)
        path.write_text(yaml.safe_dump(have))

    def versions(self) -> list[dict[str, Any]]:
        """The registered versions with tags and aliases, straight from MLflow's database."""
        with sqlite3.connect(self.home / "mlflow" / "mlflow.db") as db:
            numbers = [row[0] for row in db.execute("select version from model_versions where name = 'flights'")]
            tags = db.execute("select version, key, value from model_version_tags where name = 'flights'").fetchall()
            named = "select version, alias from registered_model_aliases where name = 'flights'"
            aliases = db.execute(named).fetchall()
        return [
            {
                "version": number,
                "tags": {key: value for version, key, value in tags if version == number},
                "aliases": [alias for version, alias in aliases if version == number],
            }
            for number in numbers
        ]

    def left(self) -> dict[str, Any]:
        """What a second run must not add to."""
        return {
            "versions": self.versions(),
            "jobs": sorted(str(path.parent) for path in (self.home / "drydock").rglob("hyperparameters.json")),
            "snapshots": sorted(path.name for path in (self.home / "lake").rglob("snap-*.avro")),
        }

    def alive(self) -> list[str]:
        """Processes that have this checkout's home in their environment or command."""
        found = []
        for process in psutil.process_iter():
            try:
                told = [*process.environ().values(), *process.cmdline()]
                if process.pid != os.getpid() and any(str(self.folder) in value for value in told):
                    found.append(" ".join(process.cmdline())[:200])
            except psutil.Error:
                continue
        return found


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    folder = tmp_path_factory.mktemp("clone") / "leeway"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *PARTS],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    shutil.copy2(ROOT / ".gitignore", folder)
    made = Checkout(folder)
    made.params(
        snapshot={"as_of": "2013-02-01", "train_days": 2, "holdout_days": 2, "min_train_days": 2},
        preprocess={"validation_days": 1},
        gate={"policy": {**EASY, "serving": {}}},
    )
    have = yaml.safe_load((folder / "params.yaml").read_text())["train"]["hyperparameters"]
    made.params(train={"hyperparameters": {**have, "num_round": 60, "max_depth": 3}})
    made.git("init", "--quiet")
    made.git("add", "--all")
    made.git("commit", "--quiet", "--message", "small")
    yield made
    assert made.python("-m", "stack", "down").returncode == 0


@pytest.fixture(scope="module")
def first(checkout: Checkout) -> subprocess.CompletedProcess[str]:
    answer = checkout.python(*DEMO)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer


def test_demo_ends_with_a_table_and_leaves_nothing_running(checkout, first):
    assert first.stderr == ""
    assert "2013-02-01" in first.stdout
    assert "passed" in first.stdout
    assert re.search(r"1\s+champion", first.stdout)
    assert "Nothing is left running." in first.stdout
    assert checkout.alive() == []
    assert json.loads((checkout.home / "demo.json").read_text())["outcome"] == "done"


def test_flights_were_checked_against_weather(checkout, first):
    for day in ("2013-01-26", "2013-01-30"):
        told = json.loads((checkout.home / "validation" / "flights" / f"{day}.json").read_text())
        (check,) = [
            one for one in told["results"] if one["expectation_config"]["type"] == "expect_rows_to_have_match_in"
        ]
        assert check["success"], check


def test_champion_carries_its_whole_lineage(checkout, first):
    (version,) = checkout.versions()
    assert version["aliases"] == ["champion"]
    tags = {name.removeprefix("leeway."): value for name, value in version["tags"].items()}
    assert [name for name in LINEAGE if not tags.get(name)] == []
    assert tags["git_commit"] == checkout.git("rev-parse", "HEAD")
    assert tags["as_of"] == "2013-02-01"
    assert tags["verdict"] == "passed"
    assert re.fullmatch(r"[0-9a-f]{64}", tags["dvc_lock"])
    assert tags["training_job_arn"].endswith(f":training-job/{tags['training_job']}")
    assert tags["dag_run"].startswith("flights_train/")
    assert re.fullmatch(r"\d+", tags["snapshot_id"])
    assert int(tags["rows_train"]) > 500


def test_dvc_repro_trains_the_same_model_without_airflow(checkout, first):
    before = checkout.left()
    answer = checkout.run("dvc", "repro")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    told = checkout.python("-c", "from pipelines.system.files import sha256, Path; print(sha256(Path('data/model')))")
    (version,) = checkout.versions()
    assert told.stdout.strip() == version["tags"]["leeway.model_digest"]
    assert checkout.left() == before
    assert "Data and pipelines are up to date." in checkout.run("dvc", "repro").stdout


def test_dvc_repro_with_another_rate_trains_another_model(checkout, first):
    have = yaml.safe_load((checkout.folder / "params.yaml").read_text())["train"]["hyperparameters"]
    checkout.params(train={"hyperparameters": {**have, "eta": 0.3}})
    answer = checkout.run("dvc", "repro", "train")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    told = checkout.python("-c", "from pipelines.system.files import sha256, Path; print(sha256(Path('data/model')))")
    assert told.stdout.strip() != checkout.versions()[0]["tags"]["leeway.model_digest"]


@pytest.fixture(scope="module")
def airflow(checkout: Checkout, first: Any) -> Iterator[AirflowClient]:
    """The stack is up, over the project as it was committed."""
    checkout.git("checkout", "--quiet", "--", "params.yaml")
    # What the steps do is proved above, in processes of their own: these are forked, which takes a fifth of the time.
    answer = checkout.python("-m", "stack", "up", LEEWAY_PYTHON=forking.ensure_stand_in())
    assert answer.returncode == 0, answer.stdout + answer.stderr
    url, password = (re.findall(what, answer.stdout)[0] for what in (r"Airflow\W+(http\S+)", r"password (\S+)"))
    yield AirflowClient(url, "admin", password)
    assert checkout.python("-m", "stack", "down").returncode == 0


def test_demo_again_adds_nothing(checkout, airflow):
    before = checkout.left()
    assert len(before["jobs"]) == 1
    assert before["snapshots"]
    answer = checkout.python(*DEMO)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert re.search(r"1\s+champion", answer.stdout)
    assert "The stack is still up" in answer.stdout
    assert checkout.left() == before


@pytest.fixture
def asking(checkout: Checkout) -> None:
    """Another model is to be trained, and a person asked for the promotion."""
    have = yaml.safe_load((checkout.folder / "params.yaml").read_text())["train"]["hyperparameters"]
    checkout.params(train={"hyperparameters": {**have, "eta": 0.2}}, gate={"approval": "required"})
    checkout.git("commit", "--quiet", "--all", "--message", "asks")


def started(airflow: AirflowClient, dag_id: str, **conf: str) -> str:
    body = {"dag_run_id": "by-hand", "logical_date": None, "conf": conf}
    airflow.unpause_dag(dag_id)
    return f"/dags/{dag_id}/dagRuns/{airflow.request('POST', f'/dags/{dag_id}/dagRuns', json=body)['dag_run_id']}"


def wait(condition: Callable[[], bool]) -> None:
    wait_until(condition, 400.0, most_s=1.0)


def answered(airflow: AirflowClient, run: str) -> bool:
    """As slow as a person: Airflow 3.3.2 loses an answer that comes within a second or two of the question, asks anew,
    and fails the task where that happens at each try."""
    approve = airflow.request("GET", f"{run}/taskInstances/approve")
    if approve["state"] != "awaiting_input":  # it may not have begun then: asked anew
        return True
    if datetime.now(UTC) - datetime.fromisoformat(approve["start_date"]) > timedelta(seconds=15):
        with contextlib.suppress(RequestError):  # it was answered before
            answer = {"chosen_options": ["Approve"], "params_input": {"why": "I looked"}}
            airflow.request("PATCH", f"{run}/taskInstances/approve/-1/hitlDetails", json=answer)
    return True


def states(airflow: AirflowClient, run: str) -> dict[str, str]:
    return {one["task_id"]: one["state"] for one in airflow.request("GET", f"{run}/taskInstances")["task_instances"]}


def test_a_person_sees_the_evidence_agrees_and_takes_it_back(checkout, airflow, asking):
    run = started(airflow, "flights_train", as_of="2013-02-01")
    wait(lambda: states(airflow, run)["approve"] in ("awaiting_input", *ENDED))
    assert states(airflow, run)["approve"] == "awaiting_input"
    form = f"{run}/taskInstances/approve/-1/hitlDetails"
    asked = airflow.request("GET", form)
    assert asked["subject"] == "Promote flights version 2? (passed)"
    assert "| passed | auc against the champion's |" in asked["body"]
    assert "| eta | 0.05 | 0.2 |" in asked["body"], "differences from the champion"
    report = airflow.request("GET", f"{run}/taskInstances/gate/links")["extra_links"]["Report"]
    assert f"[The report]({report})" in asked["body"]
    for page in (report, report.replace("report.html", "curves.png")):
        assert requests.get(page, timeout=30).status_code == 200
    assert checkout.versions()[0]["aliases"] == ["champion"]
    wait(lambda: answered(airflow, run) and airflow.request("GET", run)["state"] in ENDED)
    assert airflow.request("GET", run)["state"] == "success", states(airflow, run)
    assert [one["aliases"] for one in checkout.versions()] == [[], ["champion"]]
    back = started(airflow, "flights_rollback", why="late on Mondays")
    wait(lambda: airflow.request("GET", back)["state"] in ENDED)
    assert airflow.request("GET", back)["state"] == "success"
    assert [one["aliases"] for one in checkout.versions()] == [["champion"], []]
    told = checkout.python("-c", EVENTS).stdout
    assert "('approved', 'admin', 'I looked')" in told
    assert "('rolled_back', 'admin', 'late on Mondays')" in told
