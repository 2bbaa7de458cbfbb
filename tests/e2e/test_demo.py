"""Test the demo on real flights, as a person runs it, with small windows. Each test depends on the tests before it.

The stack starts once: the first demo keeps it up, and the last one stops it.
"""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from pipelines.system.files import sha256
from stack.airflow.client import AirflowClient
from stack.errors import RequestError
from tests.tools import forking
from tests.tools.browser import open_context, start_browser
from tests.tools.doc_pages import list_commands
from tests.tools.parameters import read_hyperparameters, update_params
from tests.tools.policies import EASY_POLICY
from tests.tools.waiting import wait_until

pytestmark = pytest.mark.timeout(1_200)  # the demo runs in the set-up of the first test, also on a loaded machine
ROOT = Path(__file__).parents[2]
PROJECT_FILES = (
    "dags",
    "plugins",
    "pipelines",
    "expectations",
    "stack",
    "drydock",
    "params.yaml",
    "models",
    "dvc.yaml",
    ".dvc",
    ".dvcignore",
)
DEMO_COMMAND = ("-m", "stack", "demo", "--from", "2013-01-27", "--to", "2013-01-30", "--as-of", "2013-02-01")
REMOVED_PREFIXES = ("LEEWAY_", "AIRFLOW_", "MLFLOW_", "AWS_", "DVC_")
PRINT_EVENTS = """
from pipelines.registry.lifecycle import Journal
print([(str(event.kind), event.who, event.why) for event in Journal.open().read_state("flights").events])
"""
FINAL_STATES = ("success", "failed", "skipped", "upstream_failed")
LINEAGE = (
    *("git_commit", "as_of", "window", "table", "snapshot_id", "data_version", "dvc_lock", "rows_train"),
    *("rows_holdout", "model_digest", "training_job", "training_job_arn", "billable_s", "instance_type", "dag_run"),
    *("verdict", "verdict_reason", "verdict_digest", "promoted_at", "promoted_over", "candidate"),
)


class Checkout:
    """A clone of the project with small windows, its commands, and their outputs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / ".leeway"

    def run(self, *command: str, timeout_s: float = 1_150, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the clone, without variables of this test run, and with these environment variables."""
        base_env = {name: value for name, value in os.environ.items() if not name.startswith(REMOVED_PREFIXES)}
        programs = f"{Path(sys.executable).parent}{os.pathsep}{base_env.get('PATH', '')}"
        env = {**base_env, "PYTHONPATH": str(self.folder), "PATH": programs, **variables}
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=timeout_s)

    def run_python(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, *arguments, **variables)

    def run_git(self, *arguments: str) -> str:
        process = self.run("git", "-c", "user.name=e2e", "-c", "user.email=e2e@localhost", *arguments)
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    def set_params(self, **sections: dict[str, Any]) -> None:
        """Update sections of the parameters."""
        update_params(self.folder, **sections)

    def list_versions(self) -> list[dict[str, Any]]:
        """Return the registered versions with their tags and aliases, read from MLflow's database."""
        with sqlite3.connect(self.home / "mlflow" / "mlflow.db") as db:
            numbers = [row[0] for row in db.execute("select version from model_versions where name = 'flights'")]
            tags = db.execute("select version, key, value from model_version_tags where name = 'flights'").fetchall()
            query = "select version, alias from registered_model_aliases where name = 'flights'"
            aliases = db.execute(query).fetchall()
        return [
            {
                "version": number,
                "tags": {key: value for version, key, value in tags if version == number},
                "aliases": [alias for version, alias in aliases if version == number],
            }
            for number in numbers
        ]

    def list_outputs(self) -> dict[str, Any]:
        """Return the versions, jobs and snapshots, which a second run must not change."""
        return {
            "versions": self.list_versions(),
            "jobs": sorted(str(path.parent) for path in (self.home / "drydock").rglob("hyperparameters.json")),
            "snapshots": sorted(path.name for path in (self.home / "lake").rglob("snap-*.avro")),
        }

    def list_processes(self) -> list[str]:
        """Return the commands of the processes that have this folder in their environment or command."""
        commands = []
        for process in psutil.process_iter():
            try:
                texts = [*process.environ().values(), *process.cmdline()]
                if process.pid != os.getpid() and any(str(self.folder) in text for text in texts):
                    commands.append(" ".join(process.cmdline())[:200])
            except psutil.Error:
                continue
        return commands


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Copy the project into a git repository, set small windows, and stop the stack at the end."""
    folder = tmp_path_factory.mktemp("clone") / "leeway"
    file_names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *PROJECT_FILES],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, file_names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    shutil.copy2(ROOT / ".gitignore", folder)
    checkout = Checkout(folder)
    checkout.set_params(
        snapshot={"as_of": "2013-02-01", "train_days": 2, "holdout_days": 1, "min_train_days": 2},
        preprocess={"validation_days": 1},
        gate={"policy": {**EASY_POLICY, "serving": {}}},
    )
    hyperparameters = read_hyperparameters(folder)
    checkout.set_params(train={"hyperparameters": {**hyperparameters, "num_round": 60, "max_depth": 3}})
    checkout.run_git("init", "--quiet")
    checkout.run_git("add", "--all")
    checkout.run_git("commit", "--quiet", "--message", "small")
    yield checkout
    assert checkout.run_python("-m", "stack", "down").returncode == 0


@pytest.fixture(scope="module")
def demo(checkout: Checkout) -> subprocess.CompletedProcess[str]:
    """Run the demo, which leaves the stack running; return its process.

    Airflow's tasks fork their steps, which takes a fifth of the time. The tests of `dvc repro` start them as users do.
    """
    process = checkout.run_python(*DEMO_COMMAND, "--keep", LEEWAY_PYTHON=str(forking.ensure_stand_in()))
    assert process.returncode == 0, process.stdout + process.stderr
    return process


def test_the_demo_ends_with_a_table_and_keeps_the_stack_up(checkout, demo):
    assert demo.stderr == ""
    assert "2013-02-01" in demo.stdout
    assert "passed" in demo.stdout
    assert re.search(r"1\s+champion", demo.stdout)
    assert "The stack is still up" in demo.stdout
    assert json.loads((checkout.home / "demo.json").read_text())["outcome"] == "done"


def test_the_commands_that_the_demo_prints_score_a_row(checkout, demo, free_port):
    """The stack is up, so the first command is left out. test_dag_runs.py has the endpoint's command."""
    hint = demo.stdout.partition("Score a flight")[2].partition("Deploy the champion to")[0]
    commands = re.findall(r"^  (\S.*)$", hint, re.M)
    assert commands[0] in ("make up", "leeway up") and "row='{" in commands[2]
    script = "\n".join(commands[1:]).replace(".venv/bin/python", sys.executable).replace("8081", str(free_port()))
    process = checkout.run("bash", "-ec", script, timeout_s=200)
    assert process.returncode == 0, process.stdout + process.stderr
    answer = json.loads(re.findall(r'\{"model".*\}', process.stdout)[0])
    assert (answer["model"], answer["version"], len(answer["scores"])) == ("flights", "1", 1)
    assert "materialize --model flights" in commands[-1], "it ran, too"
    text = " ".join(demo.stdout.split())
    assert "unpause the DAG flights_deploy" in text and "/endpoints/flights/invocations" in text


def test_flights_are_checked_against_weather(checkout, demo):
    for day in ("2013-01-27", "2013-01-30"):
        evidence = json.loads((checkout.home / "validation" / "flights" / f"{day}.json").read_text())
        (check,) = [
            result
            for result in evidence["results"]
            if result["expectation_config"]["type"] == "expect_rows_to_have_match_in"
        ]
        assert check["success"], check


def test_the_champion_has_all_tags_of_its_lineage(checkout, demo):
    (version,) = checkout.list_versions()
    assert version["aliases"] == ["champion"]
    tags = {name.removeprefix("leeway."): value for name, value in version["tags"].items()}
    assert [name for name in LINEAGE if not tags.get(name)] == []
    assert tags["git_commit"] == checkout.run_git("rev-parse", "HEAD")
    assert tags["as_of"] == "2013-02-01"
    assert tags["verdict"] == "passed"
    assert re.fullmatch(r"[0-9a-f]{64}", tags["dvc_lock"])
    assert tags["training_job_arn"].endswith(f":training-job/{tags['training_job']}")
    assert tags["dag_run"].startswith("flights_train/")
    assert re.fullmatch(r"\d+", tags["snapshot_id"])
    assert int(tags["rows_train"]) > 500


@pytest.mark.soak
def test_dvc_repro_trains_the_same_model_without_airflow(checkout, demo):
    before = checkout.list_outputs()
    process = checkout.run("dvc", "repro", "gate@flights")
    assert process.returncode == 0, process.stdout + process.stderr
    (version,) = checkout.list_versions()
    assert sha256(checkout.folder / "models/flights/data/model") == version["tags"]["leeway.model_digest"]
    assert checkout.list_outputs() == before
    assert "Data and pipelines are up to date." in checkout.run("dvc", "repro", "gate@flights").stdout


@pytest.mark.soak
def test_dvc_repro_with_another_learning_rate_trains_another_model(checkout, demo):
    hyperparameters = read_hyperparameters(checkout.folder)
    checkout.set_params(train={"hyperparameters": {**hyperparameters, "eta": 0.3}})
    process = checkout.run("dvc", "repro", "train@flights")
    assert process.returncode == 0, process.stdout + process.stderr
    assert (
        sha256(checkout.folder / "models/flights/data/model")
        != checkout.list_versions()[0]["tags"]["leeway.model_digest"]
    )


@pytest.fixture(scope="module")
def airflow(checkout: Checkout, demo: Any) -> AirflowClient:
    """Return a client of the running Airflow. The project is as it was committed."""
    checkout.run_git("checkout", "--quiet", "--", "params.yaml", "models")
    url, password = (re.findall(pattern, demo.stdout)[0] for pattern in (r"Airflow\W+(http\S+)", r"password (\S+)"))
    return AirflowClient(url, "admin", password)


@pytest.fixture(scope="module")
def password(demo: Any) -> str:
    """Return the password that the demo printed."""
    return str(re.findall(r"password (\S+)", demo.stdout)[0])


def test_the_page_shows_the_champion_of_the_demo(airflow, password):
    address = f"{airflow.url}/leeway/documents"
    assert requests.get(f"{address}/models", timeout=120).status_code == 401
    login = requests.post(f"{airflow.url}/auth/token", json={"username": "admin", "password": password}, timeout=120)
    headers = {"Authorization": f"Bearer {login.json()['access_token']}"}

    def read(path: str) -> Any:
        return requests.get(f"{address}/{path}", headers=headers, timeout=120).json()

    def find_champion() -> str:
        return {model["model"]: model["champion"] for model in read("models").get("models", [])}.get("flights", "")

    wait_for(lambda: find_champion() == "1")  # the documents are written once somebody looks
    details = read("models/flights")
    assert {"started", "judged", "promoted"} <= {event["kind"] for event in details["events"]}
    assert details["champion"]["report_url"].endswith("/models/flights/1/report.html")
    assert [item["state"] for item in read("data/flights")["partitions"]] == ["published"] * 4
    assert [job["model"] for job in read("costs")["jobs"]] == ["flights"]


def test_all_services_listen_on_loopback_only(checkout, airflow):
    """The same as in stack/services/test_start_stop.py, which `make soak` runs."""
    addresses: set[str] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("LEEWAY_HOME") == str(checkout.home):
                connections = process.net_connections("inet")
                addresses |= {item.laddr.ip for item in connections if item.status == psutil.CONN_LISTEN}
    assert addresses == {"127.0.0.1"}


def test_password_is_only_in_a_file_of_its_owner(checkout, password):
    """The same as in stack/services/test_start_stop.py, which `make soak` runs."""
    path = checkout.home / "airflow" / "passwords.json"
    assert json.loads(path.read_text())["admin"] == password
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    logs = list((checkout.home / "logs").glob("*"))
    assert len(logs) > 6
    assert not [log for log in logs if password in log.read_text(errors="replace")]


@contextlib.contextmanager
def open_model(airflow: AirflowClient, password: str) -> Iterator[Any]:
    """Log in and yield the page of the model in a browser; check at the end that no script of it failed."""
    with start_browser() as browser:
        page = open_context(browser, viewport={"width": 1280, "height": 900}).new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{airflow.url}/plugin/leeway/models/flights")
        page.fill("input[name=username]", "admin")
        page.fill("input[name=password]", password)
        page.click("button[type=submit]")
        page.wait_for_url(re.compile("/plugin/leeway/models/flights"), timeout=120_000)
        page.get_by_text("Would drift start a training?").wait_for(timeout=120_000)
        yield page
        assert problems == []


def roll_back_in_browser(airflow: AirflowClient, password: str, why: str) -> None:
    """Roll version 2 back to version 1 as a person does, and wait until the page shows what the scheduler's run did."""
    with open_model(airflow, password) as page:
        page.get_by_text("champion 1 → 2").first.wait_for(timeout=120_000)
        page.get_by_role("button", name="Roll back", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill(why)
        dialog.get_by_role("button", name="Roll back to version 1").click()
        dialog.get_by_text("The rollback of version 2 was started.").wait_for()
        page.keyboard.press("Escape")
        row = page.get_by_role("table", name="Events").get_by_role("row").filter(has_text="rolled back").first
        row.get_by_text(why).wait_for(timeout=400_000)
        assert {"champion 2 → 1", "admin"} <= {cell.inner_text() for cell in row.get_by_role("cell").all()}
    wait_for(lambda: airflow.list_runs("flights_rollback")[0]["state"] in FINAL_STATES)
    (run,) = airflow.list_runs("flights_rollback")
    assert (run["state"], run["triggering_user_name"], run["conf"]["champion"]) == ("success", "admin", "2")


@pytest.mark.soak
def test_a_person_logs_in_and_sees_the_model_in_a_browser(airflow, password):
    with open_model(airflow, password) as page:
        # The documents that the page shows first may be older than the demo: they are updated once somebody looks.
        page.get_by_text("version 1").first.wait_for(timeout=120_000)
        lineage = page.get_by_role("list", name="Lineage of version 1")
        lineage.get_by_text("trained on 2013-01-27 to 2013-01-28").wait_for()
        assert lineage.get_by_role("link").filter(has_text="flights_train/").count() == 1
        page.get_by_role("link", name="Costs").click()
        page.get_by_text("Completed").first.wait_for()
        page.get_by_role("link", name="Data", exact=True).click()
        page.get_by_role("link", name="flights").first.click()
        page.get_by_text("4 days").wait_for()


@pytest.fixture
def require_approval(checkout: Checkout) -> None:
    """Change a hyperparameter, so that another model is trained, and require approval of its promotion."""
    hyperparameters = read_hyperparameters(checkout.folder)
    checkout.set_params(train={"hyperparameters": {**hyperparameters, "eta": 0.2}}, gate={"approval": "required"})
    checkout.run_git("commit", "--quiet", "--all", "--message", "require approval")


def start_run(airflow: AirflowClient, dag_id: str, **conf: str) -> str:
    """Start a run of a DAG; return its path in Airflow's API."""
    body = {"dag_run_id": "by-hand", "logical_date": None, "conf": conf}
    airflow.unpause_dag(dag_id)
    return f"/dags/{dag_id}/dagRuns/{airflow.request('POST', f'/dags/{dag_id}/dagRuns', json=body)['dag_run_id']}"


def wait_for(condition: Callable[..., bool]) -> None:
    wait_until(condition, 400.0, max_pause_s=1.0)


def approve_when_ready(airflow: AirflowClient, run: str) -> bool:
    """Approve the promotion once the task has waited for 15 s; return True, so that a condition can call it.

    Airflow 3.3.2 loses a response that comes within a second or two of the request. It then retries the task, which
    fails if that happens at each try.
    """
    approve = airflow.request("GET", f"{run}/taskInstances/approve")
    if approve["state"] != "awaiting_input":  # not started yet, or ended: the caller polls again
        return True
    if datetime.now(UTC) - datetime.fromisoformat(approve["start_date"]) > timedelta(seconds=15):
        with contextlib.suppress(RequestError):  # it has a response already
            response = {"chosen_options": ["Approve"], "params_input": {"why": "I looked"}}
            airflow.request("PATCH", f"{run}/taskInstances/approve/-1/hitlDetails", json=response)
    return True


def read_states(airflow: AirflowClient, run: str) -> dict[str, str]:
    return {task["task_id"]: task["state"] for task in airflow.request("GET", f"{run}/taskInstances")["task_instances"]}


@pytest.mark.soak
def test_a_person_approves_a_promotion_and_rolls_it_back(checkout, airflow, password, require_approval):
    run = start_run(airflow, "flights_train", as_of="2013-02-01")
    wait_for(lambda: read_states(airflow, run)["approve"] in ("awaiting_input", *FINAL_STATES))
    assert read_states(airflow, run)["approve"] == "awaiting_input"
    form = f"{run}/taskInstances/approve/-1/hitlDetails"
    request = airflow.request("GET", form)
    assert request["subject"] == "Promote flights version 2? (passed)"
    assert "| passed | auc against the champion's |" in request["body"]
    assert "| eta | 0.05 | 0.2 |" in request["body"], "the differences from the champion are listed"
    report = airflow.request("GET", f"{run}/taskInstances/gate/links")["extra_links"]["Report"]
    assert f"[The report]({report})" in request["body"]
    for page in (report, report.replace("report.html", "curves.png")):
        assert requests.get(page, timeout=120).status_code == 200
    assert checkout.list_versions()[0]["aliases"] == ["champion"]
    wait_for(lambda: approve_when_ready(airflow, run) and airflow.request("GET", run)["state"] in FINAL_STATES)
    assert airflow.request("GET", run)["state"] == "success", read_states(airflow, run)
    assert [version["aliases"] for version in checkout.list_versions()] == [[], ["champion"]]
    airflow.unpause_dag("flights_rollback")
    roll_back_in_browser(airflow, password, "late on Mondays")
    assert [version["aliases"] for version in checkout.list_versions()] == [["champion"], []]
    events = checkout.run_python("-c", PRINT_EVENTS).stdout
    assert "('approved', 'admin', 'I looked')" in events
    assert "('rolled_back', 'admin', 'late on Mondays')" in events


RELEASE_PAGE = ROOT / "docs/tutorial/release.md"
ADDRESSES = {"MLflow": "http://127.0.0.1:5000", "drydock": "http://127.0.0.1:4566"}
"""The addresses on the page, by the names that the demo prints before its own."""
RELEASED = (
    *(("deployed", "1"), ("deployment_failed", "2"), ("deployed", "2"), ("rolled_back", "2"), ("deployed", "1")),
    ("undeployed", "1"),
)


@pytest.fixture
def run_release_page(checkout: Checkout, demo: Any, airflow: AirflowClient) -> Iterator[Callable[[], str]]:
    """Return the function that executes the commands of the page in one shell, and gives what they printed."""

    if len(checkout.list_versions()) == 1:  # alone, this test makes the second version that the approval makes
        checkout.set_params(train={"hyperparameters": {**read_hyperparameters(checkout.folder), "eta": 0.2}})
        checkout.run_git("commit", "--quiet", "--all", "--message", "another learning rate")
        for dag, params in (("flights_train", {"as_of": "2013-02-01"}), ("flights_rollback", {"why": "a test"})):
            run_id = start_run(airflow, dag, **params)
            wait_for(lambda run_id=run_id: airflow.request("GET", run_id)["state"] in FINAL_STATES)
            assert airflow.request("GET", run_id)["state"] == "success", read_states(airflow, run_id)

    def run() -> str:
        text = RELEASE_PAGE.read_text().replace("source .venv/bin/activate", "true").replace("2013-03-15", "2013-01-30")
        for name, address in ADDRESSES.items():
            assert address in text
            text = text.replace(address, re.findall(rf"{name}[^\n]*?(http\S+)", demo.stdout)[0])
        process = checkout.run("bash", "-ec", "\n".join(list_commands(text, checkout.folder)), timeout_s=1_700)
        assert process.returncode == 0, process.stderr[-3_000:] + process.stdout[-3_000:]
        return process.stdout

    yield run
    (checkout.folder / "run_dag.py").unlink(missing_ok=True)
    airflow.request("PATCH", "/dags/flights_deploy", json={"is_paused": True})


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_the_tutorial_of_a_release_rolls_back_by_an_alarm_and_then_by_the_registry(checkout, airflow, run_release_page):
    """The rollback of the registry starts the deployment of the old champion, by the scheduler and an asset event."""
    if not shutil.which("aws"):
        pytest.skip("the AWS CLI is not installed: apt-get install awscli")
    out = run_release_page()
    runs = re.findall(r"^(flights_\w+) (success|failed): (.*)$", out, re.M)
    assert [run[:2] for run in runs] == [
        ("flights_deploy", "success"),
        ("flights_deploy", "failed"),
        ("flights_deploy", "success"),
        ("flights_rollback", "success"),
        ("flights_deploy", "success"),
    ]
    assert "ModelError" in runs[1][2] and "ModelError" not in runs[2][2]
    assert "rolled back by alarm leeway-flights-error-count" in out
    assert [run["run_type"] for run in airflow.list_runs("flights_deploy")].count("asset_triggered") == 1
    events = checkout.run_python("-m", "pipelines", "registry", "events", "flights").stdout
    listed = re.findall(r"Z  (\w+)\s+(\d+)", events)
    assert tuple(event for event in listed if event[0] != "promoted")[-len(RELEASED) :] == RELEASED


def test_a_last_demo_adds_nothing_and_leaves_no_process(checkout, airflow):
    """Without the file that `--keep` created, the demo stops the stack that it finds."""
    before = checkout.list_outputs()
    assert len(before["jobs"]) == len(before["versions"]) in (1, 2), "a second one after an approval (`make soak`)"
    assert before["snapshots"]
    (checkout.home / "stack.keep").unlink()
    process = checkout.run_python(*DEMO_COMMAND)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "2013-02-01" in process.stdout
    assert "pipelines serve --model flights --port 8081" in process.stdout
    assert "export MLFLOW_TRACKING_URI=http://127.0.0.1:5000" in process.stdout
    assert "Nothing is left running." in process.stdout
    assert checkout.list_outputs() == before
    assert checkout.list_processes() == []


@pytest.mark.soak
def test_the_demo_of_another_model_ends_with_its_champion(checkout):
    """It starts the stack anew, in the state that the tests before left; alone, in an empty one."""
    policy = {**EASY_POLICY, "bounds": {"mae": {"at_most": 1_000}}, "champion": []}
    update_params(
        checkout.folder,
        "flight_delay",
        snapshot={"train_days": 2, "holdout_days": 1, "min_train_days": 2},
        preprocess={"validation_days": 1},
        train={"hyperparameters": {"num_round": 60}},
        gate={"policy": policy},
    )
    checkout.run_git("commit", "--quiet", "--all", "--message", "small windows of flight_delay")
    (checkout.home / "stack.keep").unlink(missing_ok=True)  # `make soak` leaves out the last demo, which removes it
    process = checkout.run_python(
        *DEMO_COMMAND, "--model", "flight_delay", LEEWAY_PYTHON=str(forking.ensure_stand_in())
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert re.search(r"RMSE|MAE", process.stdout) and re.search(r"1\s+champion", process.stdout), process.stdout
    with sqlite3.connect(checkout.home / "mlflow" / "mlflow.db") as db:
        aliases = db.execute("select alias, version from registered_model_aliases where name = 'flight_delay'")
        assert aliases.fetchall() == [("champion", 1)]
    assert checkout.list_processes() == []
