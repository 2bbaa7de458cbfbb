"""Provide the environment of a client, and the scripts that jobs run."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools import forking

ACCESS_KEYS = {"AWS_ACCESS_KEY_ID": "AKIADRYDOCKTAKESANY0", "AWS_SECRET_ACCESS_KEY": "drydock-takes-any"}

# Counts up with a numbered checkpoint every 50 ms, and ends at GOAL or on SIGTERM. Each run prints a line at its
# start. A run that started at 0 waits at HOLD for an interruption, which can come late on a loaded machine.
COUNTER_SCRIPT = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
first = count = max([int(path.stem) for path in folder.glob("*.txt")], default=0)
print("from", count, flush=True)
while count < int(os.environ.get("GOAL", "30")):
    count += 1
    (folder.parent / "new").write_text("x")
    (folder.parent / "new").rename(folder / f"{count}.txt")
    time.sleep(0.05)
    while first == 0 and count == int(os.environ.get("HOLD", "0")):
        time.sleep(0.05)
pathlib.Path(os.environ["SM_MODEL_DIR"], "count").write_text(str(count))
print("loss=0.25;", flush=True)
"""
FAILING_SCRIPT = "import sys; print('the script fails'); sys.exit(7)"
ENDLESS_VARIABLES = {"GOAL": "1000000"}
INTERRUPTION_VARIABLES = {"HOLD": "10"}
SCRIPTS = {"counter": COUNTER_SCRIPT, "fails": FAILING_SCRIPT}


@pytest.fixture(scope="session")
def scripts() -> dict[str, str]:
    """Return the training scripts: `counter` writes checkpoints up to GOAL, `fails` prints a line and exits with 7."""
    return SCRIPTS


@pytest.fixture(scope="session")
def endless() -> dict[str, str]:
    """Return the Environment of a counter that only a stop or an interruption ends."""
    return ENDLESS_VARIABLES


@pytest.fixture(scope="session")
def waits_for_interruption() -> dict[str, str]:
    """Return the Environment of a counter whose first run only a stop or an interruption ends."""
    return INTERRUPTION_VARIABLES


@pytest.fixture(scope="module")
def proxy() -> Iterator[str]:
    """Return the URL of a proxy that does not answer. The module fails if a client calls another machine through it."""
    requests: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as connection:
                        requests.append(connection.recv(200).decode(errors="replace"))

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    assert requests == [], "a client called another machine"


@pytest.fixture(scope="module")
def aws(drydock: Any, proxy: str) -> dict[str, str]:
    """Return a client's environment: drydock by AWS_ENDPOINT_URL, any keys, no other configuration, no network."""
    offline = {name: proxy for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}
    settings = {
        "AWS_ENDPOINT_URL": drydock.url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_PAGER": "",
    }
    no_files = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    return {
        **os.environ,
        **offline,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        **ACCESS_KEYS,
        **settings,
        **no_files,
    }


@pytest.fixture(scope="module")
def start_python(aws: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Return the function that starts a client: a Python program in its own folder, with one argument, in JSON."""
    folder: Path = tmp_path_factory.mktemp("client")

    def start(program: str, argument: Any, **env: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", program, json.dumps(argument)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return forking.Popen(command, env={**aws, **env}, cwd=folder, text=True, **pipes)

    return start


def build_processing_request(drydock: Any, name: str, script: str) -> dict[str, Any]:
    """Return the request of a job that runs a script as main.py and uploads output/out to s3://bucket/NAME/out."""
    drydock.put(f"{name}/code/main.py", script.encode())
    source = {"S3DataType": "S3Prefix", "S3InputMode": "File", "LocalPath": "/opt/ml/processing/input/code"}
    destination = {"LocalPath": "/opt/ml/processing/output/out", "S3UploadMode": "EndOfJob"}
    cluster = {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 1}
    return {
        "ProcessingJobName": name,
        "RoleArn": "arn:aws:iam::123456789012:role/drydock",
        "AppSpecification": {
            "ImageUri": "image",
            "ContainerEntrypoint": ["python3", "/opt/ml/processing/input/code/main.py"],
        },
        "ProcessingResources": {"ClusterConfig": cluster},
        "ProcessingInputs": [{"InputName": "code", "S3Input": {"S3Uri": f"s3://bucket/{name}/code/", **source}}],
        "ProcessingOutputConfig": {
            "Outputs": [{"OutputName": "out", "S3Output": {"S3Uri": f"s3://bucket/{name}/out", **destination}}]
        },
    }


@pytest.fixture(scope="session")
def build_processing() -> Callable[..., dict[str, Any]]:
    """Return the function that builds a processing job's request: build_processing(drydock, name, script)."""
    return build_processing_request


REPORTING_SCRIPT = """
import json, pathlib
out = pathlib.Path(__file__).parents[2] / "output" / "out"
(out / "report.json").write_text(json.dumps({"rows": 3}))
print("reported", flush=True)
"""
WAITING_SCRIPT = "import time; print('waiting', flush=True); time.sleep(600)"


@pytest.fixture(scope="session")
def programs() -> dict[str, str]:
    """Return the processing scripts: `reports` writes report.json, `waits` runs until a stop, `fails` exits with 7."""
    return {"reports": REPORTING_SCRIPT, "waits": WAITING_SCRIPT, "fails": FAILING_SCRIPT}


# Runs the tasks of a DAG in one process, and prints their states and XComs.
AIRFLOW_PROGRAM = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session

bag = DagBag(sys.argv[1])
assert bag.import_errors == {}, bag.import_errors
run = bag.dags[sys.argv[2]].test()
ids = {"dag_id": run.dag_id, "run_id": run.run_id}
with create_session() as session:
    states = {ti.task_id: ti.state for ti in session.query(TaskInstance).filter_by(**ids)}
    rows = session.query(XComModel).filter_by(**ids, key="return_value")
    xcoms = {row.task_id: XComModel.deserialize_value(row) for row in rows}
print("\\n" + json.dumps({"states": states, "xcoms": xcoms}))
"""


@pytest.fixture(scope="session")
def airflow_program() -> str:
    """Return a program that runs a DAG. Its arguments are the folder of the DAGs and the id of the DAG."""
    return AIRFLOW_PROGRAM


@pytest.fixture(scope="module")
def make_airflow_env(drydock: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], dict[str, str]]:
    """Return the function that writes a DAG's file, and returns the environment of an Airflow that knows the server."""

    def make(name: str, text: str) -> dict[str, str]:
        home = tmp_path_factory.mktemp("airflow")
        (home / "dags").mkdir()
        (home / "dags" / f"{name}.py").write_text(text)
        extra = {"endpoint_url": drydock.url, "region_name": "us-east-1"}
        connection = {"conn_type": "aws", "login": "test", "password": "test", "extra": extra}
        return {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(connection),
        }

    return make
