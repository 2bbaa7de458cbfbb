"""Create a model and an endpoint of drydock for the serving benchmarks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import boto3

BUCKET, ROLE = "bucket", "arn:aws:iam::123456789012:role/bench"
KEYS = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench", "region_name": "us-east-1"}
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/sagemaker/aws4_request, SignedHeaders=host, Signature=0"
)
"""Header for requests that no AWS client signs. Drydock reads region and service from it, and checks no signature."""
START_S = 120
"""Longest wait for an endpoint, seconds."""


def create_client(url: str, service: str) -> Any:
    """Return a client of AWS for the drydock at a URL."""
    return boto3.client(service, endpoint_url=url, **KEYS)


def create_model(url: str, name: str, archive: Path) -> None:
    """Upload a model.tar.gz, and create a model from it."""
    s3 = create_client(url, "s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.upload_file(str(archive), BUCKET, "model.tar.gz")
    container = {"Image": "image", "ModelDataUrl": f"s3://{BUCKET}/model.tar.gz"}
    create_client(url, "sagemaker").create_model(ModelName=name, PrimaryContainer=container, ExecutionRoleArn=ROLE)


def create_config(url: str, name: str, model: str, instances: int) -> None:
    """Create a configuration with one variant of a model."""
    variant = {"VariantName": "main", "ModelName": model, "InstanceType": "ml.m5.large"}
    variants = [{**variant, "InitialInstanceCount": instances}]
    create_client(url, "sagemaker").create_endpoint_config(EndpointConfigName=name, ProductionVariants=variants)


def create_endpoint(url: str, name: str, config: str) -> None:
    """Create an endpoint, and wait until it is InService.

    Raises:
        RuntimeError: the endpoint failed, or was not InService within `START_S`.
    """
    sagemaker, deadline = create_client(url, "sagemaker"), time.monotonic() + START_S
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=config)
    while (description := sagemaker.describe_endpoint(EndpointName=name))["EndpointStatus"] != "InService":
        if time.monotonic() > deadline or description["EndpointStatus"] == "Failed":
            raise RuntimeError(f"the endpoint does not start: {description}")
        time.sleep(0.1)
