"""Test transform jobs with real packages of models of several classes, numbers and quantiles: rows in, scores out."""

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from botocore.exceptions import ClientError

from pipelines.container.serving.tables import JSON, LINES
from pipelines.datasets.flights import DATASET
from pipelines.defaults.model import Model, Schema
from pipelines.registry.candidate import Candidate
from pipelines.registry.package.packaging import log_package
from pipelines.scoring import batch
from pipelines.serving.captured_requests import Capture, read_requests
from pipelines.window import Days

FEATURES = {"distance": "number", "origin": "category"}
ROLE = "arn:aws:iam::123456789012:role/drydock"
ROWS = 500


def train(task: str, quantiles: list[float]) -> tuple[Model, pd.DataFrame]:
    """Train a small model of the task; return it with its rows."""
    random = np.random.default_rng(3)
    distance, origin = random.uniform(100, 2_500, ROWS), random.choice(["EWR", "JFK", "LGA"], ROWS)
    noise = random.normal(0.0, 10.0, ROWS)
    frame = pd.DataFrame({"distance": distance, "origin": origin})
    delay = distance / 100 + np.where(origin == "EWR", 10, 0) + noise
    frame["label"] = (
        delay if task == "regression" else np.where(delay > 25, "late", np.where(delay < 12, "early", "on"))
    )
    schema = Schema.fit(frame, {"features": FEATURES, "label": "label", "task": task}, quantiles)
    objectives: dict[str, dict[str, Any]] = {
        "multiclass": {"objective": "multi:softprob", "num_class": 3},
        "regression": {"objective": "reg:squarederror"},
    }
    objective = {"objective": "reg:quantileerror", "quantile_alpha": quantiles} if quantiles else objectives[task]
    booster = xgb.train({**objective, "max_depth": 3, "nthread": 1}, schema.to_matrix(frame), 10)
    return Model(booster, schema), frame.drop(columns="label")


def package_model(model: Model, rows: pd.DataFrame, task: Any, folder: Path) -> Path:
    """Package the model as `evaluate` does; return the folder of the package."""
    model.save(folder / "model")
    candidate = Candidate(
        dataset=replace(DATASET, task=task, features=FEATURES),
        folder=folder / "model",
        model_digest="",
        tags={},
        digest="",
        training_job="",
        metrics={},
        artifacts={},
        provenance={},
        example=rows.head(3),
    )
    with mlflow.start_run():
        uri = log_package(candidate)
    return Path(mlflow.artifacts.download_artifacts(uri, dst_path=str(folder / "package")))


def check_endpoint(drydock: Any, model: str, rows: pd.DataFrame, expected: pd.DataFrame | np.ndarray) -> None:
    """Check that an endpoint of the model gives the same scores, and refuses a row with an unknown column."""
    client, runtime = drydock.client("sagemaker"), drydock.client("sagemaker-runtime")
    variant = {"VariantName": "v", "ModelName": model, "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    capture = {
        "EnableCapture": True,
        "InitialSamplingPercentage": 100,
        "DestinationS3Uri": f"s3://bucket/captured/{model}",
        "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    }
    client.create_endpoint_config(EndpointConfigName=model, ProductionVariants=[variant], DataCaptureConfig=capture)
    client.create_endpoint(EndpointName=model, EndpointConfigName=model)
    client.get_waiter("endpoint_in_service").wait(EndpointName=model, WaiterConfig={"Delay": 1, "MaxAttempts": 120})

    def invoke(content: list[dict[str, Any]]) -> list[Any]:
        body = json.dumps(content).encode()
        response = runtime.invoke_endpoint(
            EndpointName=model, Body=body, ContentType=JSON, Accept="application/json; charset=utf-8, */*;q=0.1"
        )
        assert response["ContentType"] == JSON, "collect reads a captured answer by its content type"
        return list(json.loads(response["Body"].read())["scores"])

    records = rows.astype(object).where(rows.notna(), None).to_dict("records")
    scores = invoke(records)
    check_bad_requests(drydock, model)
    table = pd.DataFrame(scores, columns=expected.columns) if isinstance(expected, pd.DataFrame) else np.array(scores)
    assert np.array_equal(np.asarray(table), np.asarray(expected, dtype=float)), "to the last bit"
    with pytest.raises(ClientError, match="row 1 has columns that are not features of the model: color") as error:
        invoke([{**records[0], "color": "red"}])
    assert error.value.response["OriginalStatusCode"] == 400
    today = dt.datetime.now(dt.UTC).date()
    where = Capture(capture["DestinationS3Uri"], model, "v")
    days = Days(today - dt.timedelta(1), today + dt.timedelta(1))  # the test may run at midnight
    variables = {"AWS_ENDPOINT_URL": drydock.url, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**variables, "AWS_DEFAULT_REGION": "us-east-1"}.items():
            patch.setenv(name, value)
        requests = drydock.wait_until("the captured request", lambda: list(read_requests(where, days)))
    assert requests[0].rows.rows == records and requests[0].scores == scores
    client.delete_endpoint(EndpointName=model)


def check_bad_requests(drydock: Any, endpoint: str) -> None:
    """Check that wrong requests have the status 400, and do not count for an alarm that rolls a release back."""
    runtime = drydock.client("sagemaker-runtime")
    bodies = {
        JSON: [b"{", b"[]", b"[NaN]", b"\xff", b'{"distance": 1e300, "origin": "JFK"}'],
        LINES: [b"{", b"[1]", b"[NaN]", b"", b'["far", "JFK"]', b'[NaN, "JFK"]', b'{"distance": 1}', b"\xff"],
    }
    for content_type, wrong_bodies in bodies.items():
        for body in wrong_bodies:
            with pytest.raises(ClientError) as error:
                runtime.invoke_endpoint(EndpointName=endpoint, Body=body, ContentType=content_type, Accept=JSON)
            response = error.value.response
            assert response["OriginalStatusCode"] == 400, (body, response)
            assert "\n" not in json.loads(response["OriginalMessage"])["error"]
    now = dt.datetime.now(dt.UTC)
    dimensions = [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": "v"}]
    counts = {}
    for metric in ("Invocation4XXErrors", "Invocation5XXErrors"):
        points = drydock.client("cloudwatch").get_metric_statistics(
            Namespace="AWS/SageMaker",
            MetricName=metric,
            Dimensions=dimensions,
            StartTime=now - dt.timedelta(hours=1),
            EndTime=now + dt.timedelta(minutes=1),
            Period=7200,
            Statistics=["Sum"],
        )["Datapoints"]
        counts[metric] = sum(point["Sum"] for point in points)
    assert counts == {"Invocation4XXErrors": sum(map(len, bodies.values())), "Invocation5XXErrors": 0}


@pytest.mark.parametrize(
    ("task", "quantiles", "names"),
    [
        ("multiclass", [], ["early", "late", "on"]),
        pytest.param("regression", [0.1, 0.5, 0.9], ["0.1", "0.5", "0.9"], marks=pytest.mark.soak),
        pytest.param("regression", [], [], marks=pytest.mark.soak),
    ],
    ids=["multiclass", "quantiles", "regression"],
)
def test_a_transform_job_returns_the_scores_of_each_row(
    drydock: Any, with_mlflow: str, tmp_path: Path, task: str, quantiles: list[float], names: list[str]
) -> None:
    """A list of classes or quantiles for each row; of a regression without quantiles, a number."""
    model, rows = train(task, quantiles)
    rows.loc[3, "distance"] = np.nan
    package = package_model(model, rows, task, tmp_path)
    features = batch.list_features(package)
    assert batch.list_score_classes(package) == names
    batch.pack_model(package, tmp_path / "model.tar.gz", "any", "1")
    request = batch.write_request([rows], features, tmp_path / "rows")
    job = f"packaged-{task}-{len(quantiles)}"
    for path in (tmp_path / "rows").iterdir():
        drydock.put(f"in/{job}/{path.name}", path.read_bytes())
    container = {
        "Image": "image",
        "ModelDataUrl": drydock.put(f"models/{job}/model.tar.gz", (tmp_path / "model.tar.gz").read_bytes()),
    }
    client = drydock.client("sagemaker")
    client.create_model(ModelName=job, PrimaryContainer=container, ExecutionRoleArn=ROLE)
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://bucket/in/{job}/"}}
    client.create_transform_job(
        TransformJobName=job,
        ModelName=job,
        TransformInput={"DataSource": source, "ContentType": LINES, "SplitType": "Line"},
        TransformOutput={"S3OutputPath": f"s3://bucket/out/{job}", "Accept": LINES, "AssembleWith": "Line"},
        TransformResources={"InstanceType": "ml.m5.large", "InstanceCount": 1},
    )

    def find_ended() -> dict[str, Any] | None:
        description = client.describe_transform_job(TransformJobName=job)
        return description if description["TransformJobStatus"] in ("Completed", "Failed", "Stopped") else None

    description = drydock.wait_until(f"the end of {job}", find_ended)
    assert description["TransformJobStatus"] == "Completed", description.get("FailureReason")
    (tmp_path / "out").mkdir()
    for key in drydock.list_keys(f"out/{job}/"):
        (tmp_path / "out" / Path(key).name).write_bytes(drydock.get(f"s3://bucket/{key}"))
    response = batch.Response(tmp_path / "out", request, features, batch.list_score_classes(package))
    scores = response(rows)
    response.check_rows()
    expected = model.score(rows)
    if names:
        assert isinstance(expected, pd.DataFrame) and list(scores.columns) == list(expected.columns) == names
    assert scores.shape == expected.shape
    assert np.array_equal(np.asarray(scores), np.asarray(expected, dtype=float)), "to the last bit"
    check_endpoint(drydock, job, rows, expected)
    # Negative control: the response belongs to these rows and no others.
    other = batch.Response(tmp_path / "out", request, features, names)
    other(rows.assign(distance=1.0))
    with pytest.raises(Exception, match="published again while the job ran"):
        other.check_rows()
