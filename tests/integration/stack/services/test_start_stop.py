"""Start, use and stop one stack with the real Airflow and MLflow. The tests of this module depend on their order."""

import json
import signal
import stat
from contextlib import suppress
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import psutil
import pytest
import requests

from stack.jobs.training_runs import read_training_runs

DEMO = (
    "demo",
    "--from",
    "2013-01-01",
    "--to",
    "2013-01-03",
    "--as-of",
    "2013-03-01",
    "--as-of",
    "2013-04-01",
)


def read_lines(project, name: str) -> list[str]:
    path = project.folder / name
    return sorted(path.read_text().splitlines()) if path.exists() else []


def test_names_a_service_that_cannot_start_and_leaves_no_process(project, foreign_process):
    (project.folder / "drydock.broken").touch()
    result = project.run("up")
    (project.folder / "drydock.broken").unlink()
    assert result.returncode == 75
    assert "error: drydock ended by itself (exit code 1)" in result.stderr
    assert "no port is free" in result.stderr
    assert "Traceback" not in result.stderr
    assert project.list_processes() == []


class ForeignAirflow(BaseHTTPRequestHandler):
    """The health report of a healthy Airflow, which belongs to another project."""

    def do_GET(self):
        components = ("scheduler", "dag_processor", "triggerer")
        now = datetime.now(UTC).isoformat()
        body = json.dumps(
            {name: {"status": "healthy", f"latest_{name}_heartbeat": now} for name in components}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Log nothing."""


def start_with_stolen_port(project, wait_for):
    """Start the stack, and another server on the port that it chose for Airflow. Retry where Airflow was first."""
    for _ in range(5):
        first = project.start("up")
        wait_for((project.home / "stack.json").exists)
        with suppress(OSError):
            return first, ThreadingHTTPServer(("127.0.0.1", project.record["ports"]["airflow"]), ForeignAirflow)
        assert project.run("down").returncode == 0
        first.communicate(timeout=300)
    raise AssertionError("Airflow was always first")


@pytest.mark.soak
def test_does_not_take_a_foreign_airflow_for_its_own(project, foreign_process, wait_for):
    first, other = start_with_stolen_port(project, wait_for)
    port = other.server_port
    with other:
        Thread(target=other.serve_forever, daemon=True).start()
        _, err = first.communicate(timeout=600)
        other.shutdown()
    assert (first.returncode, err) == (0, "")
    assert project.record["ports"]["airflow"] != port
    assert project.run("down").returncode == 0


@pytest.fixture
def slow_start(project):
    """A file. While it exists, drydock does not answer, and so the start does not end."""
    path = project.folder / "drydock.held"
    path.touch()
    yield path
    path.unlink(missing_ok=True)


def test_interrupted_start_leaves_no_process(project, foreign_process, wait_for, slow_start):
    first = project.start("up")
    wait_for(lambda: len(project.list_processes()) > 2)
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=180)
    assert (first.returncode, err) == (130, "interrupted\n")
    assert project.list_processes() == []


def test_down_stops_a_start_whose_command_and_supervisor_were_killed(project, foreign_process, wait_for, slow_start):
    first = project.start("up")
    wait_for(lambda: len(project.list_processes()) > 3)
    first.kill()
    first.communicate()
    project.kill("supervisor")
    assert project.list_processes()
    result = project.run("services")
    assert result.returncode == 75
    assert "The stack's supervisor was killed; start the stack again." in result.stdout
    result = project.run("down")
    assert (result.returncode, result.stderr) == (0, "")
    assert project.list_processes() == []


def test_down_interrupts_a_start(project, foreign_process, wait_for, slow_start):
    first = project.start("up")
    wait_for(lambda: len(project.list_processes()) > 2)
    assert project.run("down").returncode == 0
    first.communicate(timeout=180)
    assert first.returncode == 130
    assert project.list_processes() == []


@pytest.mark.soak
def test_up_takes_other_ports_where_another_program_was_faster(project, wait_for, slow_start):
    """Two checkouts that start in the same second choose the same ports."""
    first = project.start("up")
    wait_for((project.home / "stack.json").exists)
    port = project.record["ports"]["drydock"]
    with ThreadingHTTPServer(("127.0.0.1", port), ForeignAirflow):
        second = project.run("up")
        assert second.returncode == 75
        assert "error: The stack is being changed by `stack up`" in second.stderr
        assert second.stderr.count("\n") == 1
        slow_start.unlink()
        out, err = first.communicate(timeout=600)
    assert (first.returncode, err) == (0, "")
    assert project.record["ports"]["drydock"] != port
    assert "admin" in out
    assert "\x1b" not in out


@pytest.mark.soak
def test_repeated_up_leaves_the_stack_as_it_is(project):
    before = {process.pid for process in project.list_processes()}
    result = project.run("up")
    assert result.returncode == 0
    assert "The stack runs already" in result.stdout
    assert before <= {process.pid for process in project.list_processes()}
    assert project.run("services").returncode == 0


@pytest.mark.soak
def test_all_services_are_in_one_session_and_bind_loopback_only(project):
    supervisor = project.record["supervisor"]["pid"]
    addresses = set()
    for process in project.list_processes():
        assert psutil.Process(supervisor) in [process, *process.parents()]
        addresses |= {item.laddr.ip for item in process.net_connections("inet") if item.status == psutil.CONN_LISTEN}
    assert addresses == {"127.0.0.1"}


@pytest.mark.soak
def test_password_is_only_in_a_file_of_its_owner(project):
    path = project.home / "airflow" / "passwords.json"
    password = json.loads(path.read_text())["admin"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    logs = list((project.home / "logs").glob("*"))
    assert len(logs) > 6
    assert not [log for log in logs if password in log.read_text(errors="replace")]


@pytest.mark.soak
def test_reads_training_runs_from_mlflow(project):
    url = f"http://127.0.0.1:{project.record['ports']['mlflow']}"

    def post(call: str, **body: object) -> dict:
        result = requests.post(f"{url}/api/2.0/mlflow/{call}", json=body, timeout=120)
        assert result.ok, result.text
        return result.json()

    assert [row.version for row in read_training_runs(url, "flights", [date(2013, 3, 1)])] == [""]
    experiment = post("experiments/create", name="flights")["experiment_id"]
    post("registered-models/create", name="flights")
    for auc, verdict in ((0.61, "failed"), (0.69, "passed")):
        run = post("runs/create", experiment_id=experiment)["run"]["info"]["run_id"]
        post("runs/log-metric", run_id=run, key="holdout_auc", value=auc, timestamp=1)
        tags = {
            "leeway.as_of": "2013-03-01",
            "leeway.verdict": verdict,
            "leeway.rows_train": "39000",
            "other": "x",
        }
        pairs = [{"key": key, "value": value} for key, value in tags.items()]
        post("model-versions/create", name="flights", source=f"runs:/{run}/model", run_id=run, tags=pairs)
    post("registered-models/alias", name="flights", alias="champion", version="2")
    training_run, missing_run = read_training_runs(url, "flights", [date(2013, 3, 1), date(2013, 4, 1)])
    assert (training_run.version, training_run.verdict, training_run.aliases) == ("2", "passed", ["champion"])
    assert (training_run.rows_train, training_run.metrics) == ("39000", {"auc": 0.69})
    assert missing_run.version == ""


@pytest.mark.soak
def test_demo_reports_the_failed_task_and_the_end_of_its_log(project):
    (project.folder / "train.broken").touch()
    result = project.run(*DEMO)
    assert result.returncode == 75
    assert "error: Task train of flights_train failed for 2013-03-01" in result.stderr
    assert "the training has failed" in result.stderr
    assert read_lines(project, "trained") == ["2013-03-01"]
    assert json.loads((project.home / "demo.json").read_text())["outcome"] == "failed"


@pytest.mark.soak
def test_repeated_demo_runs_only_what_failed_or_is_missing(project):
    (project.folder / "train.broken").unlink()
    result = project.run(*DEMO)
    assert (result.returncode, result.stderr) == (0, "")
    assert "0.6900" in result.stdout
    assert "2 champion" in result.stdout
    assert read_lines(project, "ingested") == ["2013-01-01", "2013-01-02", "2013-01-03"]
    assert read_lines(project, "trained") == ["2013-03-01", "2013-03-01", "2013-04-01"]
    # Whether the run type is `backfill`, by which gate and promote recognise one, and the param `promote_in_backfill`:
    # the demo's backfill may promote.
    assert set(read_lines(project, "kinds")) == {"True True"}


@pytest.mark.soak
def test_third_demo_runs_nothing(project):
    result = project.run(*DEMO)
    assert result.returncode == 0
    assert read_lines(project, "trained") == ["2013-03-01", "2013-03-01", "2013-04-01"]
    report = json.loads((project.home / "demo.json").read_text())
    assert report["outcome"] == "done"
    assert {"up", "parse", "weather", "ingest", "train"} <= set(report["phases_s"])
    assert read_lines(project, "weather") == ["2013-01"]


def test_refuses_a_day_in_the_future(project):
    result = project.run("demo", "--from", "2999-02-01", "--to", "2999-02-02", "--as-of", "2013-03-01")
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.soak
def test_demo_leaves_a_stack_up_that_was_up_before(project):
    assert project.run("services").returncode == 0


@pytest.mark.soak
def test_demo_completes_what_a_crash_cut_off(project, foreign_process, wait_for):
    assert project.run("up").returncode == 0
    (project.folder / "train.slow").touch()
    cut_off = ("demo", "--from", "2013-01-01", "--to", "2013-01-03", "--as-of", "2013-05-01")
    first = project.start(*cut_off)
    wait_for(lambda: "2013-05-01" in read_lines(project, "trained"))
    first.kill()
    first.communicate()
    before = project.list_processes()
    project.kill("supervisor", "airflow-scheduler", "airflow-api-server", "mlflow", "drydock")
    (project.folder / "train.slow").unlink()
    result = project.run(*cut_off)
    assert (result.returncode, result.stderr) == (0, "")
    assert "The stack is still up" in result.stdout, "the stack is up, as it was before the crash"
    assert read_lines(project, "trained").count("2013-05-01") == 2
    assert read_lines(project, "ingested") == ["2013-01-01", "2013-01-02", "2013-01-03"]
    assert len(before) > 7
    assert not {*before} & {*project.list_processes()}, "no process of the killed stack is left"


@pytest.mark.soak
def test_service_that_is_killed_starts_again(project, wait_for):
    before = project.record["services"]
    project.kill("mlflow")
    wait_for(lambda: project.record["restarts"].get("mlflow") == 1)
    assert "The stack runs already" in project.run("up").stdout, "it waits until MLflow answers again"
    result = project.run("services")
    assert result.returncode == 0
    assert "Restarts of services that ended: mlflow 1;" in result.stdout
    after = project.record["services"]
    assert [name for name in before if before[name] != after[name]] == ["mlflow"]


@pytest.mark.soak
def test_up_waits_for_the_end_of_a_stack_that_stops(project):
    """Each service has ended by itself then, and none of them failed."""
    psutil.Process(project.record["supervisor"]["pid"]).terminate()
    stack_id = project.record["id"]
    first = project.start("up")
    _, err = first.communicate(timeout=600)
    assert (first.returncode, err) == (0, "")
    assert project.record["id"] != stack_id
    assert project.run("down").returncode == 0
    assert project.list_processes() == []


@pytest.mark.soak
def test_down_is_idempotent(project):
    assert project.run("down").returncode == 0
    for _ in range(2):
        result = project.run("down")
        assert (result.returncode, result.stdout) == (0, "Nothing was running.\n")
