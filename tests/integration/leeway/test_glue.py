"""Test the lake on AWS: a Glue catalog and files in S3, which only environment variables configure."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

BUCKET = "leeway-lake"
DAY = "2013-02-01"


@pytest.fixture
def set_glue_variables(
    drydock_server: Any, set_aws_variables: None, commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set the variables that configure the lake, which .env.example lists, for commands."""
    drydock_server.client("s3").create_bucket(Bucket=BUCKET)
    settings = {
        "TYPE": "glue",
        "WAREHOUSE": f"s3://{BUCKET}/lake",
        # On AWS these two are not set, because PyIceberg knows AWS's endpoints.
        "GLUE__ENDPOINT": drydock_server.url,
        "S3__ENDPOINT": drydock_server.url,
    }
    variables = {f"PYICEBERG_CATALOG__LEEWAY__{name}": value for name, value in settings.items()}
    keys = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    commands.env |= {**keys, **variables}


def test_day_is_ingested_validated_and_published_in_a_lake_on_glue(
    set_glue_variables: None, commands: Any, drydock_server: Any
) -> None:
    result = commands.run_step("backfill", "--dataset", "flights", "--first", DAY, "--last", DAY)
    assert result.code == 0, result.err[-3_000:]
    tables = drydock_server.client("glue").get_tables(DatabaseName="leeway")["TableList"]
    assert {"flights_raw", "flights"} <= {table["Name"] for table in tables}
    assert all(table["StorageDescriptor"]["Location"].startswith(f"s3://{BUCKET}/lake") for table in tables)
    result = commands.run_step("ingest", "--dataset", "flights", "--partition", DAY)
    assert json.loads(result.out)["changed"] is False


@pytest.mark.soak
def test_a_lost_file_of_a_lake_on_glue_is_restored(
    set_glue_variables: None, commands: Any, drydock_server: Any
) -> None:
    assert commands.run_step("backfill", "--dataset", "weather", "--first", DAY, "--last", DAY).code == 0
    result = commands.run_step("lake", "check", "--json")
    assert result.code == 0, result.err[-3_000:]
    s3 = drydock_server.client("s3")
    keys = [item["Key"] for item in s3.list_objects_v2(Bucket=BUCKET, Prefix="lake/")["Contents"]]
    lost = next(key for key in keys if "/weather_raw/data/" in key and key.endswith(".parquet"))
    content = s3.get_object(Bucket=BUCKET, Key=lost)["Body"].read()
    s3.delete_object(Bucket=BUCKET, Key=lost)
    assert commands.run_step("check_lake").code == 2
    assert commands.run_step("lake", "check", "--repair").code == 0
    assert s3.get_object(Bucket=BUCKET, Key=lost)["Body"].read() == content
