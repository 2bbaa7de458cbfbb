"""Provide a lake that is written once for a module, and one whose files are in S3 (moto's server)."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyiceberg.catalog import load_catalog

from pipelines.lake import Lake
from tests.conftest import ROOT
from tests.tools.saved_homes import SavedHome


@pytest.fixture(scope="module")
def written_lake(request: pytest.FixtureRequest, save_home: Callable[..., SavedHome]) -> SavedHome:
    """Call the module's `write_tables` in an empty home, and save it."""
    return save_home(lambda: request.module.write_tables(Lake.open()), ROOT)


@pytest.fixture
def written_home(written_lake: SavedHome, restore_home: Callable[..., Path]) -> Path:
    """Set LEEWAY_HOME to the written lake, as it was written, and the working directory to `tmp_path`."""
    return restore_home(written_lake, ROOT)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """Start a moto server; return its URL."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(home: Path, s3_endpoint: str, request: pytest.FixtureRequest) -> Any:
    """Create an empty bucket."""
    resource = boto3.resource(
        "s3",
        endpoint_url=s3_endpoint,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    bucket = resource.Bucket(f"lake-{abs(hash(request.node.name)):x}")
    bucket.create()
    return bucket


@pytest.fixture
def open_s3_lake(bucket: Any, s3_endpoint: str, tmp_path: Path) -> Callable[..., Lake]:
    """Return the function that opens the lake whose files are in `bucket`. The catalog is a SQLite file beside it."""

    def open_lake(catalog_file: str = "catalog.db") -> Lake:
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/{catalog_file}",
            "warehouse": f"s3://{bucket.name}/lake",
            "s3.endpoint": s3_endpoint,
            "s3.access-key-id": "x",
            "s3.secret-access-key": "x",
            "s3.region": "us-east-1",
        }
        catalog = load_catalog("leeway", **properties)
        catalog.create_namespace_if_not_exists("leeway")
        return Lake(catalog)

    return open_lake
