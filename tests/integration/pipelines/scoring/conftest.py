"""What tests of scoring share: published days, and a champion of the real registry."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from pipelines.dataset import load_dataset
from pipelines.lake import Lake
from pipelines.system.files import write_json
from tests.tools.candidates import register

FLIGHTS = load_dataset("flights")
DAY = dt.date(2013, 2, 1)
Publish = Callable[..., pa.Table]


@pytest.fixture
def publish(home: Path, day_rows: Callable[[str], pa.Table]) -> Publish:
    """Publishes a day, as it was or with another content."""

    def published(day: dt.date = DAY, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> pa.Table:
        rows = change(day_rows(day.isoformat()))
        Lake.open().write_partition("flights", day, rows, FLIGHTS.key)
        return rows

    return published


@pytest.fixture(scope="module")
def candidates(
    tmp_path_factory: pytest.TempPathFactory, trained: SimpleNamespace, mlflow_uri: str
) -> Iterator[Callable[[str], str]]:
    """Registers the trained model as of a day; gives its version. Of model `scored`, one for all tests."""
    from pipelines.settings import settings

    folder, known = tmp_path_factory.mktemp("candidates"), dict[str, str]()
    shutil.copytree(trained.data, folder / "data")

    def candidate(as_of: str) -> str:
        if as_of in known:
            return known[as_of]
        path = folder / "data/snapshot.json"
        write_json(path, {**json.loads(path.read_text()), "as_of": as_of})
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("LEEWAY_HOME", str(folder / "home"))
            patch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
            settings.cache_clear()
            known[as_of] = register("scored")
        settings.cache_clear()
        return known[as_of]

    yield candidate
    settings.cache_clear()


@pytest.fixture
def crown(candidates: Callable[[str], str], with_mlflow: str) -> Iterator[Callable[[str], str]]:
    """Makes the version as of a day the champion; after the test there is none."""
    from pipelines.registry.versions import PROMOTED_TAG, Registry

    def crowned(as_of: str) -> str:
        version = candidates(as_of)
        registry = Registry.open()
        registry.client.set_registered_model_alias("scored", "champion", version)
        registry.set_tags("scored", version, {PROMOTED_TAG: "none"})
        return version

    yield crowned
    client = Registry.open().client
    client.delete_registered_model_alias("scored", "champion")
    for version in client.search_model_versions("name = 'scored'"):
        client.delete_model_version_tag("scored", version.version, PROMOTED_TAG)


@pytest.fixture
def champion(crown: Callable[[str], str]) -> str:
    return crown("2013-01-25")
