"""Test how a dataset is found, and which names and models it refuses."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines import datasets
from pipelines.dataset import Dataset, choose_dataset, load_dataset
from pipelines.errors import DataError, SpecError


def test_finds_the_example_dataset() -> None:
    dataset = load_dataset("flights")
    assert (dataset.staging, dataset.table, dataset.package.name) == ("flights_raw", "flights", "flights")


@pytest.mark.parametrize(
    "name", ["nope", "", ".", "..", "../x", "steps", "lake", "flights.source", "flights/", "a b", "os"]
)
def test_an_unknown_dataset_is_an_error_that_names_the_known_ones(name: str) -> None:
    with pytest.raises(SpecError, match="Use one of: flight_delay, flight_status, flights") as error:
        load_dataset(name)
    assert error.value.exit_code == 2


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder whose packages are packages of `pipelines.datasets`, too. Other tests do not find them."""
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(tmp_path)])
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if name.startswith("pipelines.datasets.") and str(module.__file__).startswith(str(tmp_path)):
            del sys.modules[name]


def test_only_packages_with_a_dataset_are_known(packages: Path) -> None:
    contents = {
        "sources": "",
        "other": "DATASET = 'text'",
        "broken": "raise RuntimeError",
        "orders": "from pipelines.dataset import Dataset\nDATASET = Dataset(name='orders', key=('id',))",
    }
    for name, content in contents.items():
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text(content)
        (packages / name / "source.py").touch()
    (packages / "module.py").touch()
    with pytest.raises(SpecError, match="Use one of: flight_delay, flight_status, flights, orders, weather") as error:
        load_dataset("sources")
    assert str(error.value).endswith("Use one of: flight_delay, flight_status, flights, orders, weather.")


def test_the_only_dataset_is_chosen_and_several_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="project's datasets: flight_delay, flight_status, flights, weather") as error:
        choose_dataset()
    assert error.value.exit_code == 2
    monkeypatch.setattr("pipelines.dataset.list_datasets", lambda: ["weather"])
    assert choose_dataset().name == "weather"
    monkeypatch.setattr("pipelines.dataset.list_datasets", list)
    with pytest.raises(SpecError, match="datasets: it has none"):
        choose_dataset()


def test_a_dataset_may_use_the_rows_of_another_one() -> None:
    dataset = load_dataset("flight_delay")
    assert (dataset.staging, dataset.table, dataset.quarantine) == ("flights_raw", "flights", "flights_quarantine")
    assert (dataset.predictions, dataset.label, dataset.task) == ("flight_delay_predictions", "arr_delay", "regression")
    with pytest.raises(SpecError, match=r"flight_delay uses the rows of flights\. Give `--dataset flights`\."):
        dataset.open_source()
    load_dataset("flights").require_own_days()


def test_a_module_that_a_dataset_needs_is_named(packages: Path) -> None:
    (packages / "loans").mkdir()
    (packages / "loans/__init__.py").write_text("import a_module_that_is_missing")
    with pytest.raises(SpecError, match="'loans' cannot be loaded: there is no module a_module_that_is_missing"):
        load_dataset("loans")


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("score", {"features": {"score": "number"}}),
        ("score", {"label": "score"}),
        ("model_name", {"key": ("id", "model_name")}),
        ("label", {"key": ("id", "label")}),
        ("Score", {"key": ("id", "Score")}),
        ("SCORE", {"features": {"SCORE": "number"}}),
        ("Label", {"key": ("id", "Label")}),
    ],
)
def test_refuses_a_column_name_that_leeway_uses(column: str, names: dict[str, Any]) -> None:
    fields = {"key": ("id",), "label": "late", "features": {"amount": "number"}}
    Dataset("loans", **{**fields, "features": {"label": "number", "model_name": "category"}})
    Dataset("loans", **{**fields, "key": ("label", "score"), "label": ""})
    with pytest.raises(SpecError, match=f"loans has a column {column}") as error:
        Dataset("loans", **{**fields, **names})
    assert error.value.exit_code == 2


@pytest.mark.parametrize("content", [None, b"", b"not a booster"])
def test_refuses_a_folder_without_a_model(tmp_path: Path, content: bytes | None) -> None:
    (tmp_path / "schema.json").write_text('{"features": {}, "label": "late", "categories": {}}')
    if content is not None:
        (tmp_path / "model.ubj").write_bytes(content)
    with pytest.raises(DataError, match="holds no model of flights"):
        load_dataset("flights").load_model(tmp_path)


def test_refuses_a_broken_schema(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"features": {}}')
    with pytest.raises(DataError, match="holds no model"):
        load_dataset("flights").load_model(tmp_path)


@pytest.mark.parametrize("column", ["predicted", "is_right", "score_late"])
def test_a_multiclass_model_reserves_more_names(column: str) -> None:
    fields: dict[str, Any] = {"name": "x", "key": ("date",), "label": "y", "features": {column: "number"}}
    with pytest.raises(SpecError, match=f"x has a column {column}, a name that the tables of predictions use"):
        Dataset(**fields, task="multiclass")
    assert Dataset(**fields).features == {column: "number"}, "the negative control"
