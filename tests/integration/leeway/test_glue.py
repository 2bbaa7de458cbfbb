"""The lake where AWS has it: a Glue catalog, files in S3, reached through the environment alone."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

BUCKET = "leeway-lake"
DAY = "2013-02-01"


@pytest.fixture
def on_glue(drydock_server: Any, set_aws_variables: None, commands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that name the lake, as .env.example has them."""
    drydock_server.client("s3").create_bucket(Bucket=BUCKET)
    given = {
        "TYPE": "glue",
        "WAREHOUSE": f"s3://{BUCKET}/lake",
        # On AWS neither: there the endpoints are AWS's own.
        "GLUE__ENDPOINT": drydock_server.url,
        "S3__ENDPOINT": drydock_server.url,
    }
    named = {f"PYICEBERG_CATALOG__LEEWAY__{name}": value for name, value in given.items()}
    keys = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    commands.env |= {**keys, **named}


def test_a_day_is_ingested_judged_and_published_in_a_lake_on_glue(
    on_glue: None, commands: Any, drydock_server: Any
) -> None:
    done = commands.step("backfill", "--first", DAY, "--last", DAY)
    assert done.code == 0, done.err[-3_000:]
    tables = drydock_server.client("glue").get_tables(DatabaseName="leeway")["TableList"]
    assert {"flights_raw", "flights"} <= {one["Name"] for one in tables}
    assert all(one["StorageDescriptor"]["Location"].startswith(f"s3://{BUCKET}/lake") for one in tables)
    again = commands.step("ingest", "--dataset", "flights", "--partition", DAY)
    assert json.loads(again.out)["changed"] is False
