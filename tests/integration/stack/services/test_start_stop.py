"""The life of one stack with the real Airflow and MLflow. The tests of this module follow one another."""

import json
import signal
import stat
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import psutil
import pytest
import requests

from stack.jobs import training_runs

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


def lines(project, name: str) -> list[str]:
    path = project.folder / name
    return sorted(path.read_text().splitlines()) if path.exists() else []


def test_service_that_cannot_start_is_named_and_nothing_is_left(project, foreign):
    (project.folder / "drydock.broken").touch()
    answer = project.run("up")
    (project.folder / "drydock.broken").unlink()
    assert answer.returncode == 75
    assert "error: drydock ended by itself (exit code 1)" in answer.stderr
    assert "no berth is free" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert project.marked() == []


class OthersAirflow(BaseHTTPRequestHandler):
    """Answers for a healthy Airflow, as that of another project does."""

    def do_GET(self):
        parts = ("scheduler", "dag_processor", "triggerer")
        now = datetime.now(UTC).isoformat()
        body = json.dumps({one: {"status": "healthy", f"latest_{one}_heartbeat": now} for one in parts}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: the tests' output is theirs."""


def overtaken(project, wait_for):
    """A start, and the server of another on the port that it chose for Airflow; tried again where Airflow was first."""
    for _ in range(5):
        first = project.start("up")
        wait_for((project.home / "stack.json").exists)
        with suppress(OSError):
            return first, ThreadingHTTPServer(("127.0.0.1", project.state["ports"]["airflow"]), OthersAirflow)
        assert project.run("down").returncode == 0
        first.communicate(timeout=300)
    raise AssertionError("Airflow was always first")


def test_airflow_of_another_on_the_chosen_port_is_not_taken_for_ours(project, foreign, wait_for):
    first, other = overtaken(project, wait_for)
    port = other.server_port
    with other:
        Thread(target=other.serve_forever, daemon=True).start()
        _, err = first.communicate(timeout=300)
        other.shutdown()
    assert first.returncode == 75
    assert f"error: Another program took port {port} meanwhile" in err or "airflow-api-server ended by itself" in err
    assert project.marked() == []


@pytest.fixture
def held(project):
    """As long as this file is there drydock does not answer, and a start is under way."""
    path = project.folder / "drydock.held"
    path.touch()
    yield path
    path.unlink(missing_ok=True)


def test_interrupted_start_leaves_nothing(project, foreign, wait_for, held):
    first = project.start("up")
    wait_for(lambda: len(project.marked()) > 2)
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=60)
    assert (first.returncode, err) == (130, "interrupted\n")
    assert project.marked() == []


def test_down_ends_a_start_whose_launcher_and_keeper_were_killed(project, foreign, wait_for, held):
    first = project.start("up")
    wait_for(lambda: len(project.marked()) > 3)
    first.kill()
    first.communicate()
    project.kill("keeper")
    assert project.marked()
    answer = project.run("down")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert project.marked() == []


def test_down_stops_a_start_that_is_under_way(project, foreign, wait_for, held):
    first = project.start("up")
    wait_for(lambda: len(project.marked()) > 2)
    assert project.run("down").returncode == 0
    first.communicate(timeout=60)
    assert first.returncode == 130
    assert project.marked() == []


def test_of_two_ups_at_once_one_starts_and_one_says_so(project, wait_for, held):
    first = project.start("up")
    wait_for((project.home / "stack.json").exists)
    second = project.run("up")
    assert second.returncode == 75
    assert "error: The stack is being changed by `stack up`" in second.stderr
    assert second.stderr.count("\n") == 1
    held.unlink()
    out, err = first.communicate(timeout=300)
    assert (first.returncode, err) == (0, "")
    assert "admin" in out
    assert "\x1b" not in out


def test_up_again_says_where_it_is(project):
    before = {process.pid for process in project.marked()}
    answer = project.run("up")
    assert answer.returncode == 0
    assert "It was running already" in answer.stdout
    assert before <= {process.pid for process in project.marked()}
    assert project.run("status").returncode == 0


def test_all_services_are_in_one_session_and_bind_loopback_only(project):
    keeper = project.state["keeper"]["pid"]
    addresses = set()
    for process in project.marked():
        assert psutil.Process(keeper) in [process, *process.parents()]
        addresses |= {one.laddr.ip for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN}
    assert addresses == {"127.0.0.1"}


def test_password_is_in_no_log_and_no_file_that_others_read(project):
    path = project.home / "airflow" / "passwords.json"
    password = json.loads(path.read_text())["admin"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    logs = list((project.home / "logs").glob("*"))
    assert len(logs) > 6
    assert not [log for log in logs if password in log.read_text(errors="replace")]


def test_rows_come_from_the_registry(project):
    url = f"http://127.0.0.1:{project.state['ports']['mlflow']}"

    def post(call: str, **body: object) -> dict:
        answer = requests.post(f"{url}/api/2.0/mlflow/{call}", json=body, timeout=30)
        assert answer.ok, answer.text
        return answer.json()

    assert [row.version for row in training_runs.rows(url, [training_runs.date(2013, 3, 1)])] == [""]
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
    trained, missing = training_runs.rows(url, [training_runs.date(2013, 3, 1), training_runs.date(2013, 4, 1)])
    assert (trained.version, trained.verdict, trained.aliases) == ("2", "passed", ["champion"])
    assert (trained.rows_train, trained.metrics) == ("39000", {"holdout_auc": 0.69})
    assert missing.version == ""


def test_demo_tells_the_failing_task_and_the_end_of_its_log(project):
    (project.folder / "train.broken").touch()
    answer = project.run(*DEMO)
    assert answer.returncode == 75
    assert "error: Task train of flights_train failed for 2013-03-01" in answer.stderr
    assert "the yard is closed" in answer.stderr
    assert lines(project, "trained") == ["2013-03-01"]
    assert json.loads((project.home / "demo.json").read_text())["outcome"] == "failed"


def test_demo_again_runs_only_what_failed_or_is_missing(project):
    (project.folder / "train.broken").unlink()
    answer = project.run(*DEMO)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "0.6900" in answer.stdout
    assert "2 champion" in answer.stdout
    assert lines(project, "ingested") == ["2013-01-01", "2013-01-02", "2013-01-03"]
    assert lines(project, "trained") == ["2013-03-01", "2013-03-01", "2013-04-01"]
    # By this type gate and promote know a backfill; the demo's may promote.
    assert set(lines(project, "kinds")) == {"True True"}


def test_demo_a_third_time_runs_nothing(project):
    answer = project.run(*DEMO)
    assert answer.returncode == 0
    assert lines(project, "trained") == ["2013-03-01", "2013-03-01", "2013-04-01"]
    report = json.loads((project.home / "demo.json").read_text())
    assert report["outcome"] == "done"
    assert {"up", "parse", "weather", "ingest", "train"} <= set(report["phases_s"])
    assert lines(project, "weather") == ["2013-01"]


def test_day_that_has_not_come_is_refused(project):
    answer = project.run("demo", "--from", "2999-02-01", "--to", "2999-02-02", "--as-of", "2013-03-01")
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: ")
    assert answer.stderr.count("\n") == 1


def test_demo_leaves_a_stack_that_was_up_before(project):
    assert project.run("status").returncode == 0


def test_demo_finishes_what_a_crash_cut_off(project, foreign, wait_for):
    (project.folder / "train.slow").touch()
    cut_off = ("demo", "--from", "2013-01-01", "--to", "2013-01-03", "--as-of", "2013-05-01")
    first = project.start(*cut_off)
    wait_for(lambda: "2013-05-01" in lines(project, "trained"))
    first.kill()
    first.communicate()
    before = project.marked()
    project.kill("keeper", "airflow-scheduler", "airflow-api-server", "mlflow", "drydock")
    (project.folder / "train.slow").unlink()
    answer = project.run(*cut_off)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "The stack is still up" in answer.stdout, "as it was before the crash"
    assert lines(project, "trained").count("2013-05-01") == 2
    assert lines(project, "ingested") == ["2013-01-01", "2013-01-02", "2013-01-03"]
    assert len(before) > 7
    assert not {*before} & {*project.marked()}, "nothing is left of the life before"


def test_service_that_is_killed_takes_the_rest_with_it(project, foreign, wait_for):
    project.kill("mlflow")
    wait_for(lambda: project.marked() == [])
    assert project.state["died"] == "mlflow"
    assert project.run("status").returncode == 75
    assert project.run("down").stdout == "Nothing was running.\n"


def test_down_is_idempotent(project):
    for _ in range(2):
        answer = project.run("down")
        assert (answer.returncode, answer.stdout) == (0, "Nothing was running.\n")
