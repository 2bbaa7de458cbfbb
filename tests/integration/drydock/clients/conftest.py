"""What the clients' tests share: the environment of a client, and scripts that do as a job is to do."""

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

KEYS = {"AWS_ACCESS_KEY_ID": "AKIADRYDOCKTAKESANY0", "AWS_SECRET_ACCESS_KEY": "drydock-takes-any"}

# Counts in its checkpoint folder, a number each 50 ms, and ends at GOAL; on SIGTERM it leaves. Speaks on each start.
# Where it began at 0 it waits at HOLD for an interruption: however late that comes, it comes in time.
COUNTER = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
began = count = max([int(path.stem) for path in folder.glob("*.txt")], default=0)
print("from", count, flush=True)
while count < int(os.environ.get("GOAL", "30")):
    count += 1
    (folder.parent / "new").write_text("x")
    (folder.parent / "new").rename(folder / f"{count}.txt")
    time.sleep(0.05)
    while began == 0 and count == int(os.environ.get("HOLD", "0")):
        time.sleep(0.05)
pathlib.Path(os.environ["SM_MODEL_DIR"], "count").write_text(str(count))
print("loss=0.25;", flush=True)
"""
FAILS = "import sys; print('the hull is leaking'); sys.exit(7)"
FOREVER = {"GOAL": "1000000"}
HELD = {"HOLD": "10"}
SCRIPTS = {"counter": COUNTER, "fails": FAILS}


@pytest.fixture(scope="session")
def scripts() -> dict[str, str]:
    """counter: trains from checkpoint to checkpoint, up to GOAL; fails: says why, and exits with 7."""
    return SCRIPTS


@pytest.fixture(scope="session")
def forever() -> dict[str, str]:
    """The Environment of a counter that only a stop or an interruption ends."""
    return FOREVER


@pytest.fixture(scope="session")
def held() -> dict[str, str]:
    """The Environment of a counter whose first run only a stop or an interruption ends."""
    return HELD


@pytest.fixture(scope="module")
def proxy() -> Iterator[str]:
    """The URL of a proxy that answers nobody; the module fails where a client calls anything but this machine."""
    called: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as connection:
                        called.append(connection.recv(200).decode(errors="replace"))

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    assert called == [], "a client calls out"


@pytest.fixture(scope="module")
def aws(drydock: Any, proxy: str) -> dict[str, str]:
    """A client's whole environment: the server by AWS_ENDPOINT_URL, any keys, no other configuration, no network."""
    offline = {name: proxy for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}
    own = {
        "AWS_ENDPOINT_URL": drydock.url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_PAGER": "",
    }
    none = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    return {**os.environ, **offline, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **KEYS, **own, **none}


@pytest.fixture(scope="module")
def python(aws: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Starts a client that is a Python program, in a process and a folder of its own; its argument is JSON."""
    folder: Path = tmp_path_factory.mktemp("client")

    def begin(program: str, given: Any, **env: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", program, json.dumps(given)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, env={**aws, **env}, cwd=folder, text=True, **pipes)  # type: ignore[call-overload, no-any-return]

    return begin


def processing_request(drydock: Any, name: str, script: str) -> dict[str, Any]:
    """A processing job that runs script as main.py; what it leaves in output/out is at s3://bucket/NAME/out."""
    drydock.put(f"{name}/code/main.py", script.encode())
    where = {"S3DataType": "S3Prefix", "S3InputMode": "File", "LocalPath": "/opt/ml/processing/input/code"}
    there = {"LocalPath": "/opt/ml/processing/output/out", "S3UploadMode": "EndOfJob"}
    cluster = {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 1}
    return {
        "ProcessingJobName": name,
        "RoleArn": "arn:aws:iam::123456789012:role/drydock",
        "AppSpecification": {
            "ImageUri": "image",
            "ContainerEntrypoint": ["python3", "/opt/ml/processing/input/code/main.py"],
        },
        "ProcessingResources": {"ClusterConfig": cluster},
        "ProcessingInputs": [{"InputName": "code", "S3Input": {"S3Uri": f"s3://bucket/{name}/code/", **where}}],
        "ProcessingOutputConfig": {
            "Outputs": [{"OutputName": "out", "S3Output": {"S3Uri": f"s3://bucket/{name}/out", **there}}]
        },
    }


@pytest.fixture(scope="session")
def processing() -> Callable[..., dict[str, Any]]:
    """Makes the request of a processing job: processing(drydock, name, script)."""
    return processing_request


REPORTS = """
import json, pathlib
out = pathlib.Path(__file__).parents[2] / "output" / "out"
(out / "report.json").write_text(json.dumps({"rows": 3}))
print("reported", flush=True)
"""
WAITS = "import time; print('waiting', flush=True); time.sleep(600)"


@pytest.fixture(scope="session")
def programs() -> dict[str, str]:
    """What processing jobs run. reports: leaves report.json; waits: until it is stopped; fails: exits with 7."""
    return {"reports": REPORTS, "waits": WAITS, "fails": FAILS}
