"""Create models and endpoints on a running drydock, through boto3."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

ROLE = "arn:aws:iam::123456789012:role/drydock"
# Answers with its name, its process and what it got. The text of a request can make it fail, wait or die.
INFERENCE = """
import importlib, json, os, sys, time

LIBRARIES = os.environ.get("LIBRARIES", "").split()
PRESENT = [name for name in LIBRARIES if name in sys.modules]

class Refused(ValueError):
    status_code = 422

def model_fn(model_dir):
    print("loading", os.environ["NAME"], flush=True)
    for name in LIBRARIES:
        importlib.import_module(name)
    if "LOAD_S" in os.environ:
        time.sleep(float(os.environ["LOAD_S"]))
    if "FAIL" in os.environ:
        raise RuntimeError(os.environ["FAIL"])
    return os.environ["NAME"]

ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"

def transform_fn(name, body, content_type, accept, context):
    text = body if isinstance(body, str) else body.decode()
    if text.startswith("attributes"):
        sent = context.get_request_header(0, ATTRIBUTES), context.get_request_header(0, "X-Amzn-SageMaker-Inference-Id")
        context.set_response_header(0, ATTRIBUTES, " ".join(sent) + text.removeprefix("attributes"))
    if text == "refuse":
        raise Refused("row 1, column x: 'a' is not a double")
    if text == "crash":
        os._exit(3)
    if text.startswith("large"):
        return json.dumps({"text": "x" * int(text.split()[1])}), accept
    if text == "bug":
        raise KeyError("x")
    if text.startswith("wait"):
        time.sleep(float(text.split()[1]))
    return json.dumps({"model": name, "pid": os.getpid(), "text": text, "type": content_type,
                       "present": PRESENT}), accept
"""


class EndpointClient:
    """Calls that tests of endpoints make often.

    Args:
        server: A running drydock.
    """

    def __init__(self, server: Any) -> None:
        self.server = server
        self._names: set[str] = set()
        self.image = "image"
        self.sagemaker, self.runtime = server.client("sagemaker"), server.client("sagemaker-runtime")

    def create_model(self, name: str, **environment: str) -> None:
        """Create a model that answers with its name."""
        uri = self.server.put(f"models/{name}.tar.gz", self.server.pack_archive({"code/inference.py": INFERENCE}))
        container = {"Image": self.image, "ModelDataUrl": uri, "Environment": {"NAME": name, **environment}}
        self.sagemaker.create_model(ModelName=name, PrimaryContainer=container, ExecutionRoleArn=ROLE)

    def create_config(self, name: str, environment: dict[str, str] | None = None, **weights: float) -> None:
        """Create a model for each variant, and a configuration of these variants with their weights."""
        variants = [self.build_variant(f"{name}-{variant}", variant, weight) for variant, weight in weights.items()]
        for variant in variants:
            self.create_model(variant["ModelName"], **(environment or {}))
        self.sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=variants)

    def build_variant(self, model: str, name: str = "main", weight: float = 1.0, **fields: Any) -> dict[str, Any]:
        """Return a production variant."""
        size = {"InstanceType": "ml.m5.large", "InitialInstanceCount": 1, "InitialVariantWeight": weight}
        return {"VariantName": name, "ModelName": model, **size, **fields}

    def build_serverless_variant(self, model: str, **fields: Any) -> dict[str, Any]:
        """Return a serverless production variant; the fields are those of its ServerlessConfig."""
        serverless = {"MemorySizeInMB": 1024, "MaxConcurrency": 2, **fields}
        return {"VariantName": "main", "ModelName": model, "ServerlessConfig": serverless}

    def create_serverless_endpoint(self, name: str, environment: dict[str, str] | None = None, **fields: Any) -> None:
        """Create an endpoint of one serverless variant, and wait until it is in service."""
        self.create_model(name, **(environment or {}))
        variants = [self.build_serverless_variant(name, **fields)]
        self.sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=variants)
        self.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
        self.wait_for_status(name, "InService")

    def create_endpoint(self, name: str, **weights: float) -> None:
        """Create an endpoint with a configuration of its own name, and wait until it is in service."""
        self.create_config(name, **(weights or {"main": 1.0}))
        self.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
        description = self.wait_for_status(name, "InService")
        assert "FailureReason" not in description

    def ensure_endpoint(self, name: str) -> None:
        """Create an endpoint unless an earlier case of the test has created it."""
        if name not in self._names:
            self.create_endpoint(name)
        self._names.add(name)

    def describe(self, name: str) -> dict[str, Any]:
        """Return the description of an endpoint."""
        return dict(self.sagemaker.describe_endpoint(EndpointName=name))

    def wait_for_status(self, name: str, *statuses: str) -> dict[str, Any]:
        """Wait until an endpoint has one of these statuses, and return its description."""

        def find() -> dict[str, Any] | None:
            description = self.describe(name)
            return description if description["EndpointStatus"] in statuses else None

        return dict(self.server.wait_until(f"{statuses} of {name}", find))

    def list_processes(self, name: str) -> list[str]:
        """Return the instances of an endpoint that have a process."""
        folder = self.server.data / "endpoints" / "123456789012" / "us-east-1" / name
        return [path.name.partition(".")[0] for path in folder.glob("*.process.json")]

    def read_statistic(self, metric: str, statistic: str, name: str, namespace: str = "AWS/SageMaker") -> float:
        """Return a statistic of the metric of an endpoint's variant `main` in the last hours; NaN without data."""
        now = datetime.now(UTC)
        key = "Statistics" if statistic.isalpha() else "ExtendedStatistics"
        points = self.server.client("cloudwatch").get_metric_statistics(
            Namespace=namespace,
            MetricName=metric,
            Dimensions=[{"Name": "EndpointName", "Value": name}, {"Name": "VariantName", "Value": "main"}],
            StartTime=now - timedelta(hours=1),
            EndTime=now + timedelta(minutes=1),
            Period=7200,
            **{key: [statistic]},
        )["Datapoints"]
        if not points:
            return math.nan
        return float(points[0][statistic] if key == "Statistics" else points[0]["ExtendedStatistics"][statistic])

    def wait_for_end(self, name: str) -> None:
        """Wait until an endpoint does not exist."""
        self.server.wait_until(
            f"the end of {name}", lambda: not self.sagemaker.list_endpoints(NameContains=name)["Endpoints"]
        )

    def scale(self, name: str, *changes: dict[str, Any]) -> None:
        """Change weights and numbers of instances."""
        self.sagemaker.update_endpoint_weights_and_capacities(EndpointName=name, DesiredWeightsAndCapacities=changes)

    def invoke_often(self, name: str, count: int) -> list[str]:
        """Invoke an endpoint several times. Return the model of each answer, or the code of the error."""
        answers = []
        for _ in range(count):
            try:
                answers.append(self.invoke(name)["model"])
            except ClientError as error:
                answers.append(error.response["Error"]["Code"])
        return answers

    def invoke(self, name: str, text: str = "hello", **fields: Any) -> dict[str, Any]:
        """Invoke an endpoint, and return what the model answers."""
        request = {"ContentType": "text/csv", **fields}
        response = self.runtime.invoke_endpoint(EndpointName=name, Body=text.encode(), **request)
        return {**json.loads(response["Body"].read()), "variant": response["InvokedProductionVariant"]}


@pytest.fixture(scope="module")
def endpoints(drydock: Any) -> EndpointClient:
    """Return the calls, for the module's server."""
    return EndpointClient(drydock)


@pytest.fixture(scope="session")
def make_client() -> type[EndpointClient]:
    """Return the class of the calls, for a server of the test's own."""
    return EndpointClient
