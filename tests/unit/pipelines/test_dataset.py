from pathlib import Path
from typing import Any

import pytest

from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError, SpecError


def test_the_example_is_found() -> None:
    found = load_dataset("flights")
    assert (found.staging, found.published, found.package.name) == ("flights_raw", "flights", "flights")


@pytest.mark.parametrize(
    "name", ["nope", "", ".", "..", "../x", "steps", "lake", "flights.source", "flights/", "a b", "os"]
)
def test_what_is_no_dataset_is_said_with_those_that_are(name: str) -> None:
    with pytest.raises(SpecError, match="Known: flights") as caught:
        load_dataset(name)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("taken", "names"),
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
def test_a_name_that_our_tables_have_themselves_is_refused(taken: str, names: dict[str, Any]) -> None:
    given = {"key": ("id",), "label": "late", "features": {"amount": "number"}}
    Dataset("loans", **{**given, "features": {"label": "number", "model_name": "category"}})
    Dataset("loans", **{**given, "key": ("label", "score"), "label": ""})
    with pytest.raises(SpecError, match=f"loans has a column {taken}") as caught:
        Dataset("loans", **{**given, **names})
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("content", [None, b"", b"not a booster"])
def test_a_folder_without_a_model_is_bad_data(tmp_path: Path, content: bytes | None) -> None:
    (tmp_path / "schema.json").write_text('{"features": {}, "label": "late", "categories": {}}')
    if content is not None:
        (tmp_path / "model.ubj").write_bytes(content)
    with pytest.raises(DataError, match="holds no model of flights"):
        load_dataset("flights").load_model(tmp_path)


def test_a_broken_schema_is_bad_data(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"features": {}}')
    with pytest.raises(DataError, match="holds no model"):
        load_dataset("flights").load_model(tmp_path)
