"""Deploy versions to endpoints of a real drydock: raw rows of a day have the bits of their batch scores."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pandas as pd
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError

from pipelines.container.serving.compiled_features import FILE_NAME
from pipelines.container.serving.tables import LINES
from pipelines.dataset import load_dataset
from pipelines.datasets import flights as flights_package
from pipelines.datasets.flights import features as flights_features
from pipelines.errors import DataError
from pipelines.registry.artifacts import open_package
from pipelines.registry.versions import Registry
from pipelines.steps import collect, materialize, score, serving
from tests.integration.pipelines.scoring.conftest import DAY, Publish, Server, StartDrydock
from tests.tools.candidates import register
from tests.tools.packages import change_package

pytestmark = pytest.mark.soak

FLIGHTS = load_dataset("flights")
LOOKED_UP = set(FLIGHTS.lookups[0].features)
HIDDEN = {FLIGHTS.label, *FLIGHTS.known_later}
MODEL = "rawrows"
JSON = "application/json"
ROLE = "arn:aws:iam::123456789012:role/drydock"
Rows = list[dict[str, Any]]


@pytest.fixture
def day(publish: Publish, trained: SimpleNamespace, tmp_path: Path, with_mlflow: str) -> pa.Table:
    """Return a published day. The files of a trained model are in the working directory."""
    shutil.copytree(trained.data, tmp_path / "data")
    return publish()


@pytest.fixture
def deploy(start_drydock: StartDrydock, tmp_path: Path) -> Callable[..., Callable[[Rows], dict[str, Any]]]:
    """Return the function that deploys a version as the step `serving` packs it, and returns how to invoke it."""
    start_drydock()
    client, s3 = boto3.client("sagemaker"), boto3.client("s3")
    s3.create_bucket(Bucket="rawrows")

    def create(name: str, model: str, version: str) -> Callable[[Rows], dict[str, Any]]:
        serving.run(serving.ServingSpec(model=model, version=version, endpoint=name, folder=tmp_path / name))
        s3.upload_file(str(tmp_path / name / "model.tar.gz"), "rawrows", f"{name}/model.tar.gz")
        code = {"SAGEMAKER_PROGRAM": "inference.py", "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code"}
        container = {"Image": "image", "ModelDataUrl": f"s3://rawrows/{name}/model.tar.gz", "Environment": code}
        client.create_model(ModelName=name, PrimaryContainer=container, ExecutionRoleArn=ROLE)
        variant = {"VariantName": "AllTraffic", "ModelName": name, "InstanceType": "ml.m5.large"}
        capture = {
            "EnableCapture": True,
            "InitialSamplingPercentage": 100,
            "DestinationS3Uri": "s3://rawrows/captured",
            "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
        }
        client.create_endpoint_config(
            EndpointConfigName=name,
            ProductionVariants=[{**variant, "InitialInstanceCount": 1}],
            DataCaptureConfig=capture,
        )
        client.create_endpoint(EndpointName=name, EndpointConfigName=name)
        client.get_waiter("endpoint_in_service").wait(EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 300})
        runtime = boto3.client("sagemaker-runtime")

        def invoke(rows: Rows) -> dict[str, Any]:
            body = json.dumps(rows, default=lambda value: value.isoformat())
            response = runtime.invoke_endpoint(
                EndpointName=name, Body=body, ContentType=JSON, Accept=JSON, InferenceId="request-7"
            )
            answer: dict[str, Any] = json.loads(response["Body"].read())
            names = [answer.pop(name) for name in ("model", "version", "request_id")]
            assert names == [model, version, "request-7"] and answer.pop("latency_ms") > 0
            return answer

        return invoke

    return create


def list_rows(day: pa.Table, hidden: set[str] = HIDDEN) -> Rows:
    return day.select([name for name in day.column_names if name not in hidden]).to_pylist()


def read_scores(scored: score.ScoreResult, rows: Rows) -> list[float]:
    """Return the batch scores of the rows."""
    frame = pd.read_parquet(scored.rows).set_index(list(FLIGHTS.key))["score"]
    return [float(frame[tuple(row[name] for name in FLIGHTS.key)]) for row in rows]


def read_features(scored: score.ScoreResult) -> Rows:
    frame = pd.read_parquet(scored.rows)[list(FLIGHTS.features)].astype(object)
    return frame.where(frame.notna(), None).to_dict("records")


def refuse(invoke: Callable[[Rows], Any], rows: Rows) -> str:
    """Return the line with which an endpoint refuses rows."""
    with pytest.raises(ClientError) as error:
        invoke(rows)
    assert error.value.response["OriginalStatusCode"] == 400
    message = json.loads(error.value.response["OriginalMessage"])["error"]
    assert "\n" not in message
    return str(message)


def test_raw_rows_of_a_day_have_the_bits_of_the_batch(
    day: pa.Table,
    champion: str,
    deploy: Callable[..., Callable[[Rows], dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    until: Any,
) -> None:
    version = register(MODEL, has_own_package=True)
    scored = score.run(score.ScoreSpec(dataset="flights", model=MODEL, version=version, partition=DAY))
    rows = list_rows(day, HIDDEN | LOOKED_UP)
    expected = read_scores(scored, rows)
    with monkeypatch.context() as patch:  # the dataset's code changes after the registration
        patch.setattr(flights_features, "features", lambda rows: rows.mutate(**dict.fromkeys(FLIGHTS.features, 1)))
        invoke = deploy(MODEL, MODEL, version)

    # The control: before `materialize`, the looked-up features have their defaults, and the scores differ.
    answer = invoke(rows)
    assert answer["lookups"] == {"hour": {"missing": len(rows)}} and answer["scores"] != expected
    materialize.run(materialize.MaterializeSpec(dataset="flights", partition=DAY))
    answer = invoke(rows)
    assert answer["lookups"] == {"hour": {"found": len(rows)}}
    assert answer["scores"] == expected and len(rows) > 500
    assert [invoke([row])["scores"][0] for row in rows[:20]] == expected[:20]

    ready = read_features(scored)
    assert invoke(ready) == {"scores": [float(value) for value in pd.read_parquet(scored.rows)["score"]]}
    assert refuse(invoke, [rows[0], {**rows[1], "distance": "far"}]) == (
        "row 2, column distance: 'far' is not a whole number (int32)"
    )
    assert "have columns of features (weekday) and of raw rows (" in refuse(invoke, [{**rows[0], "weekday": 1}])

    lines = invoke_lines(rows)
    assert [line["score"] for line in lines] == expected and set(lines[0]["looked_up"]) == LOOKED_UP
    check_collected(scored, version, len(rows), until)
    check_old_version(deploy("old", "scored", champion), ready, rows)


def invoke_lines(rows: Rows) -> list[dict[str, Any]]:
    """Return the lines of the endpoint's answer to raw rows as JSON lines."""
    response = boto3.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=MODEL, Body=json.dumps(rows, default=str), ContentType=JSON, Accept=LINES
    )
    assert response["ContentType"] == LINES
    return [json.loads(line) for line in response["Body"].read().splitlines()]


def check_collected(twin: score.ScoreResult, version: str, count: int, until: Any) -> None:
    """Collect the captured raw rows: the newest request of each key has the features and scores of the batch."""
    today = dt.datetime.now(dt.UTC).date()
    spec = collect.CollectSpec(
        dataset="flights",
        model=MODEL,
        version=version,
        endpoint=MODEL,
        captured="s3://rawrows/captured",
        partition=DAY,
        first_day=today - dt.timedelta(1),  # the test may run at midnight
        last_day=today + dt.timedelta(1),
    )
    # Three requests of the day, 20 single rows, and the features, which lack the key. The newest answer is JSON lines.
    until(lambda: collect.run(spec).requests == 24)
    result = collect.run(spec)
    assert (result.scored, result.unreadable, result.invalid) == (count, 2, count), "refused requests are captured, too"
    online, batch = (pd.read_parquet(item.rows) for item in (result, twin))
    pd.testing.assert_frame_equal(online[batch.columns], batch)


def check_old_version(invoke: Callable[[Rows], dict[str, Any]], ready: Rows, rows: Rows) -> None:
    """Check an endpoint of a version that was registered where no row was published, as older versions are."""
    assert len(invoke(ready[:10])["scores"]) == 10
    message = refuse(invoke, rows)
    assert message.startswith("row 1 lacks the columns weekday, departs_minute, ")
    assert message.endswith(
        "this version was registered without compiled features, so it cannot score raw rows: register a new one"
    )


def test_a_version_without_lookups_is_served_by_its_package_alone(
    day: pa.Table,
    deploy: Callable[..., Callable[[Rows], dict[str, Any]]],
    commands: Any,
    with_mlflow: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`serve` gives the same scores without the lake; a version whose compiled features were changed is not loaded."""
    monkeypatch.setattr(flights_package, "DATASET", replace(FLIGHTS, lookups=()))
    version = register(f"{MODEL}-alone", has_own_package=True)
    scored = score.run(score.ScoreSpec(dataset="flights", model=f"{MODEL}-alone", version=version, partition=DAY))
    rows = list_rows(day)
    expected = {"scores": read_scores(scored, rows)}
    assert deploy(f"{MODEL}-alone", f"{MODEL}-alone", version)(rows) == expected

    arguments = ("serve", "--model", f"{MODEL}-alone", "--version", version, "--port", "0")
    environment = {"MLFLOW_TRACKING_URI": with_mlflow, "LEEWAY_HOME": str(tmp_path / "empty")}
    server = Server(commands.start(sys.executable, "-m", "pipelines", *arguments, env=environment))
    assert server.invoke(rows)[1]["scores"] == expected["scores"]

    change = lambda text: text.replace("ORDER BY", "order by")  # noqa: E731
    registered_version = Registry.open().get_version(f"{MODEL}-alone", version)
    with (
        change_package(f"{MODEL}-alone", version, f"code/{FILE_NAME}", change),
        pytest.raises(DataError, match="are not those that were registered"),
        open_package(registered_version),
    ):
        raise AssertionError("the package was opened")
