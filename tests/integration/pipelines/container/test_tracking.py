"""A training tells MLflow where one answers, and files in any case; both hold the same numbers."""

import csv
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.system.mlflow_server import JOB_TAG, is_reachable
from tests.tools.groups import signal_group
from tests.tools.trainings import start_suspended_training

QUICK = {"num_round": 30, "early_stopping_rounds": 30, "checkpoint_rounds": 5}
SLOW = {"num_round": 250, "early_stopping_rounds": 250, "checkpoint_rounds": 10}


@pytest.fixture
def features(home: Path, trained: SimpleNamespace) -> None:
    shutil.copytree(trained.data / "features", "data/features")


def run_of(uri: str, job: str) -> Any:
    from mlflow import MlflowClient

    client = MlflowClient(uri, uri)
    experiment = client.get_experiment_by_name("flights")
    runs = client.search_runs([experiment.experiment_id], f"tags.`{JOB_TAG}` = '{job}'")
    assert len(runs) == 1, "one training is one run"
    return client, runs[0]


def rows(path: str = "data/training/rounds.csv") -> list[dict[str, float]]:
    with open(path, newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def same_numbers(uri: str, job: str) -> None:
    client, run = run_of(uri, job)
    told = rows()
    for name in ("train-logloss", "validation-logloss", "train-auc", "validation-auc"):
        history = client.get_metric_history(run.info.run_id, name)
        assert [(one.step, one.value) for one in sorted(history, key=lambda one: one.step)] == [
            (int(row["round"]), row[name]) for row in told
        ]


def train(commands: Any, uri: str, hyperparameters: dict[str, Any], **options: Any) -> SimpleNamespace:
    env = {"MLFLOW_TRACKING_URI": uri}
    done: SimpleNamespace = commands.step("train", "--hyperparameters", json.dumps(hyperparameters), env=env, **options)
    return done


def test_the_run_has_params_metrics_a_round_and_environment(features: None, commands: Any, mlflow_uri: str) -> None:
    done = train(commands, mlflow_uri, QUICK)
    assert done.code == 0, done.err
    told = json.loads(done.out)
    _client, run = run_of(mlflow_uri, told["training_job"])
    assert run.info.status == "FINISHED"
    assert run.data.params["num_round"] == "30"
    assert run.data.params == {k: str(v) for k, v in json.loads(Path("data/training/params.json").read_text()).items()}
    assert run.data.tags["environment.python"]
    assert run.data.tags["environment.git_commit"]
    assert run.data.metrics["training_wall_s"] == told["metrics"]["wall_s"]
    same_numbers(mlflow_uri, told["training_job"])
    # Done again, it is the same run, with no number twice.
    shutil.rmtree("data/model")
    assert train(commands, mlflow_uri, QUICK).code == 0
    same_numbers(mlflow_uri, told["training_job"])


def test_a_killed_training_goes_on_with_its_run(
    features: None, commands: Any, mlflow_uri: str, until: Callable[..., Any], home: Path
) -> None:
    child = start_suspended_training(commands, until, home, SLOW, 30, {"MLFLOW_TRACKING_URI": mlflow_uri})
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    done = train(commands, mlflow_uri, SLOW)
    assert done.code == 0, done.err
    assert "resuming from the checkpoint" in done.err
    same_numbers(mlflow_uri, json.loads(done.out)["training_job"])


def test_an_unreachable_server_is_one_line_and_the_files_hold_all(
    features: None, commands: Any, free_port: Callable[[], int], trained: SimpleNamespace
) -> None:
    done = train(commands, f"http://127.0.0.1:{free_port()}", trained_with := {**QUICK, "num_round": 8})
    assert done.code == 0, done.err
    assert done.err.count("does not answer: this run is recorded in files only") == 1
    assert len(rows()) == trained_with["num_round"]


def test_a_server_that_dies_in_the_middle_does_not_stop_the_training(
    features: None, commands: Any, start_mlflow: Callable[[], Any], until: Callable[..., Any], home: Path
) -> None:
    server, uri = start_mlflow()
    # Its rounds wait for the server's end.
    child = start_suspended_training(commands, until, home, SLOW, 20, {"MLFLOW_TRACKING_URI": uri})
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    signal_group(child, signal.SIGCONT)
    _out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert err.count("MLflow failed (") == 1
    assert "Traceback" not in err
    assert len(rows()) == 250


@pytest.mark.parametrize("uri", ["nonsense", "http://", "http://256.1.1.1:1", "file:///tmp/x", ""])
def test_what_is_no_address_is_not_reachable(uri: str) -> None:
    assert not is_reachable(uri, 1.0)


def test_a_server_that_is_not_mlflow(features: None, commands: Any, tmp_path: Path) -> None:
    """It answers /health with 200, and nothing else as MLflow would."""
    import http.server
    import threading

    class Polite(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"OK")

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Polite) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = train(commands, f"http://127.0.0.1:{server.server_port}", {**QUICK, "num_round": 4})
        server.shutdown()
    assert done.code == 0, done.err
    assert "recorded in files only" in done.err
    assert len(rows()) == 4
