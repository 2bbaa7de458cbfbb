"""Provide what the tests of scoring share: published days, and a champion in a real registry."""

from __future__ import annotations

import datetime as dt
import http.client
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from drydock.endpoints.capture import build_event
from drydock.endpoints.instances.connection_pool import ModelResponse
from drydock.endpoints.invocation import Invocation
from pipelines.container import inference
from pipelines.dataset import load_dataset
from pipelines.lake import Lake
from pipelines.registry.artifacts import open_package
from pipelines.registry.versions import Registry
from pipelines.steps import score
from pipelines.system.files import write_json
from tests.tools.candidates import register

FLIGHTS = load_dataset("flights")
DAY = dt.date(2013, 2, 1)
Publish = Callable[..., pa.Table]
StartDrydock = Callable[[], Any]
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
JSON = "application/json"
MODES = [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}]
INPUTS = list(dict.fromkeys([*FLIGHTS.key, *FLIGHTS.features]))


class Server:
    """A running server."""

    def __init__(self, child: Any) -> None:
        self.child = child
        self.line = child.stdout.readline()
        match = re.search(r"http://127\.0\.0\.1:(\d+)/invocations", self.line)
        assert match, self.line + child.stderr.read()
        self.port = int(match[1])

    def invoke(self, content: Any) -> tuple[int, dict[str, Any]]:
        """Send rows as JSON; return status and answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=180)
        body = content if isinstance(content, bytes) else json.dumps(content, default=lambda value: value.isoformat())
        connection.request("POST", "/invocations", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer

    def ping(self) -> dict[str, Any]:
        """Return the answer of GET /ping."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=180)
        connection.request("GET", "/ping")
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer


@pytest.fixture
def publish(home: Path, day_rows: Callable[[str], pa.Table]) -> Publish:
    """Return the function that publishes a day, unchanged or after a change of its rows."""

    def write_day(day: dt.date = DAY, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> pa.Table:
        rows = change(day_rows(day.isoformat()))
        Lake.open().write_partition("flights", day, rows, FLIGHTS.key)
        return rows

    return write_day


@pytest.fixture(scope="module")
def register_candidate(
    tmp_path_factory: pytest.TempPathFactory, trained: SimpleNamespace, mlflow_uri: str
) -> Iterator[Callable[[str], str]]:
    """Return the function that registers the trained model as of a day, once for all tests, and returns its version."""
    from pipelines.settings import settings

    folder, versions = tmp_path_factory.mktemp("candidates"), dict[str, str]()
    shutil.copytree(trained.data, folder / "data")

    def register_once(as_of: str) -> str:
        if as_of in versions:
            return versions[as_of]
        path = folder / "data/snapshot.json"
        write_json(path, {**json.loads(path.read_text()), "as_of": as_of})
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("LEEWAY_HOME", str(folder / "home"))
            patch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
            settings.cache_clear()
            versions[as_of] = register("scored", has_own_package=True)
        settings.cache_clear()
        return versions[as_of]

    yield register_once
    settings.cache_clear()


@pytest.fixture
def make_champion(register_candidate: Callable[[str], str], with_mlflow: str) -> Iterator[Callable[[str], str]]:
    """Return the function that makes the version as of a day the champion. After the test there is no champion."""
    from pipelines.registry.versions import PROMOTED_TAG, Registry

    def set_champion(as_of: str) -> str:
        version = register_candidate(as_of)
        registry = Registry.open()
        registry.client.set_registered_model_alias("scored", "champion", version)
        registry.set_tags("scored", version, {PROMOTED_TAG: "none"})
        return version

    yield set_champion
    client = Registry.open().client
    client.delete_registered_model_alias("scored", "champion")
    for version in client.search_model_versions("name = 'scored'"):
        client.delete_model_version_tag("scored", version.version, PROMOTED_TAG)


@pytest.fixture
def champion(make_champion: Callable[[str], str]) -> str:
    """Return the version of the champion, which was trained as of 2013-01-25."""
    return make_champion("2013-01-25")


@pytest.fixture
def start_drydock(
    commands: Any, tmp_path: Path, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch, until: Any
) -> Iterator[StartDrydock]:
    """Return the function that starts drydock, each time at the same address and with the same data.

    At the end SIGTERM stops it: after a kill, the processes of its endpoints would stay.
    """
    children: list[Any] = []
    port, folder = free_port(), tmp_path / "drydock"
    folder.mkdir()
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}.items():
        monkeypatch.setenv(name, value)
        commands.env[name] = value

    def start() -> Any:
        port_file = folder / "port"
        port_file.unlink(missing_ok=True)
        arguments = ("--port", str(port), "--port-file", str(port_file), "--data", str(folder / "data"))
        child = commands.start(sys.executable, "-m", "drydock", *arguments)
        until(lambda: port_file.exists() or child.poll() is not None)
        assert child.poll() is None, child.stderr.read()
        children.append(child)
        return child

    yield start
    for child in children:
        if child.poll() is None:
            child.terminate()
            child.wait(60)


class CaptureFolder:
    """A folder with captured requests, as an endpoint of the version writes them."""

    def __init__(self, folder: Path, package: Path) -> None:
        self.folder, self._model = folder, inference.model_fn(str(package))
        folder.mkdir()

    def request(self, rows: Sequence[dict[str, Any]], at: dt.datetime, scores: list[float] | None = None) -> None:
        """Answer a request as inference.py does, or with other scores, and capture both."""
        body = json.dumps(rows, default=str)
        answer = inference.output_fn(inference.predict_fn(inference.input_fn(body, JSON), self._model), JSON).body
        answer = json.dumps({"scores": scores}) if scores else answer
        request = Invocation(body.encode(), {"Content-Type": JSON})
        event = build_event({"CaptureOptions": MODES}, request, ModelResponse(200, answer.encode(), JSON), at)
        self.write(json.dumps(event), at)

    def write(self, line: str, at: dt.datetime) -> None:
        """Append a line to the file of the hour."""
        folder = self.folder / f"online/AllTraffic/{at:%Y/%m/%d/%H}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "00.jsonl").open("a") as file:
            file.write(line + "\n")


@pytest.fixture
def batch_twin(champion: str, publish: Publish) -> score.ScoreResult:
    """Return the day, scored by the step `score`."""
    publish()
    return score.run(score.ScoreSpec(dataset="flights", model="scored", partition=DAY))


@pytest.fixture
def capture(champion: str, tmp_path: Path) -> Iterator[CaptureFolder]:
    with open_package(Registry.open().get_version("scored", champion)) as package:
        yield CaptureFolder(tmp_path / "captured", package)


def read_inputs(twin: score.ScoreResult) -> list[dict[str, Any]]:
    """Return key and features of each row, as a client that computes them would send them."""
    rows: pd.DataFrame = pd.read_parquet(twin.rows)[INPUTS]
    return rows.astype(object).where(rows.notna(), None).to_dict("records")
