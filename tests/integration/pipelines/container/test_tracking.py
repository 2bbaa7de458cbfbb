"""Test that a training reports the same numbers to MLflow and to its files, and trains without MLflow, too."""

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


def find_run(uri: str, job: str) -> Any:
    """Return a client of MLflow, and the one run of the training job."""
    from mlflow import MlflowClient

    client = MlflowClient(uri, uri)
    experiment = client.get_experiment_by_name("flights")
    runs = client.search_runs([experiment.experiment_id], f"tags.`{JOB_TAG}` = '{job}'")
    assert len(runs) == 1, "one training is one run"
    return client, runs[0]


def read_rounds(path: str = "data/training/rounds.csv") -> list[dict[str, float]]:
    with open(path, newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def check_rounds(uri: str, job: str) -> None:
    """Check that MLflow and the file have the same metrics of each round, once each."""
    client, run = find_run(uri, job)
    rounds = read_rounds()
    for name in ("train-logloss", "validation-logloss", "train-auc", "validation-auc"):
        history = client.get_metric_history(run.info.run_id, name)
        assert [(metric.step, metric.value) for metric in sorted(history, key=lambda metric: metric.step)] == [
            (int(row["round"]), row[name]) for row in rounds
        ]


def train(commands: Any, uri: str, hyperparameters: dict[str, Any], **options: Any) -> SimpleNamespace:
    """Run the step `train` and return its exit code, stdout and stderr."""
    env = {"MLFLOW_TRACKING_URI": uri}
    process: SimpleNamespace = commands.run_step(
        "train", "--hyperparameters", json.dumps(hyperparameters), env=env, **options
    )
    return process


def test_the_run_has_params_environment_and_metrics_of_each_round(
    features: None, commands: Any, mlflow_uri: str
) -> None:
    process = train(commands, mlflow_uri, QUICK)
    assert process.code == 0, process.err
    result = json.loads(process.out)
    _client, run = find_run(mlflow_uri, result["training_job"])
    assert run.info.status == "FINISHED"
    assert run.data.params["num_round"] == "30"
    assert run.data.params == {k: str(v) for k, v in json.loads(Path("data/training/params.json").read_text()).items()}
    assert run.data.tags["environment.python"]
    assert run.data.tags["environment.git_commit"]
    assert run.data.metrics["training_wall_s"] == result["metrics"]["wall_s"]
    check_rounds(mlflow_uri, result["training_job"])
    # A second training reports to the same run, and no number twice.
    shutil.rmtree("data/model")
    assert train(commands, mlflow_uri, QUICK).code == 0
    check_rounds(mlflow_uri, result["training_job"])


@pytest.mark.soak
def test_a_killed_training_resumes_with_its_run(
    features: None, commands: Any, mlflow_uri: str, until: Callable[..., Any], home: Path
) -> None:
    killed_process = start_suspended_training(commands, until, home, SLOW, 30, {"MLFLOW_TRACKING_URI": mlflow_uri})
    os.killpg(killed_process.pid, signal.SIGKILL)
    killed_process.communicate()
    process = train(commands, mlflow_uri, SLOW)
    assert process.code == 0, process.err
    assert "resuming from the checkpoint" in process.err
    check_rounds(mlflow_uri, json.loads(process.out)["training_job"])


def test_an_unreachable_server_gives_one_line_and_the_files_have_all_rounds(
    features: None, commands: Any, free_port: Callable[[], int], trained: SimpleNamespace
) -> None:
    process = train(commands, f"http://127.0.0.1:{free_port()}", hyperparameters := {**QUICK, "num_round": 8})
    assert process.code == 0, process.err
    assert process.err.count("does not answer: this run is recorded in files only") == 1
    assert len(read_rounds()) == hyperparameters["num_round"]


@pytest.mark.soak
def test_a_server_that_dies_during_the_training_does_not_stop_it(
    features: None, commands: Any, start_mlflow: Callable[[], Any], until: Callable[..., Any], home: Path
) -> None:
    server, uri = start_mlflow()
    # The training is suspended until the server has ended.
    process = start_suspended_training(commands, until, home, SLOW, 20, {"MLFLOW_TRACKING_URI": uri})
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    signal_group(process, signal.SIGCONT)
    _out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert err.count("MLflow failed (") == 1
    assert "Traceback" not in err
    assert len(read_rounds()) == 250


@pytest.mark.parametrize("uri", ["nonsense", "http://", "http://256.1.1.1:1", "file:///tmp/x", ""])
def test_an_invalid_address_is_not_reachable(uri: str) -> None:
    assert not is_reachable(uri, 1.0)


def test_a_server_that_is_not_mlflow_does_not_stop_the_training(features: None, commands: Any, tmp_path: Path) -> None:
    """The server answers each request with 200, and no body that MLflow would send."""
    import http.server
    import threading

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"OK")

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        process = train(commands, f"http://127.0.0.1:{server.server_port}", {**QUICK, "num_round": 4})
        server.shutdown()
    assert process.code == 0, process.err
    assert "recorded in files only" in process.err
    assert len(read_rounds()) == 4
