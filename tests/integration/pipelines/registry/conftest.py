"""Provide candidates, and make the gate faster for these tests, which run it about 80 times."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.tools.names import name_for_test
from tests.tools.short_gate import shorten_gate


@pytest.fixture(autouse=True)
def short_gate() -> Iterator[None]:
    """Run the gate without its pictures."""
    with shorten_gate():
        yield


@pytest.fixture
def data(home: Path, trained: SimpleNamespace) -> Path:
    """Copy the data/ of a trained model, and return its folder."""
    shutil.copytree(trained.data, "data")
    Path("dvc.lock").write_text("schema: '2.0'\n")
    Path("params.yaml").write_text("train: {}\n")
    return Path("data")


@pytest.fixture
def model(with_mlflow: str, request: pytest.FixtureRequest) -> str:
    """Return the name of this test's model."""
    return name_for_test("m-", request.node.name)
