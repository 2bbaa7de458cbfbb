"""Define the name and the metadata key of feature files, and load the dataset that they were built from."""

from __future__ import annotations

import json
from pathlib import Path

from pipelines.dataset import Dataset, choose_dataset, load_dataset
from pipelines.errors import SpecError
from pipelines.system.data_files import read_parquet_metadata

METADATA_KEY = b"leeway"
"""Key in the Parquet file's metadata under which dataset, key, features and label are described, as JSON."""
FILE_NAME = "data.parquet"
"""Name of the file in the folder of each split: train, validation and holdout."""


def load_dataset_of_features(features: Path, name: str = "") -> Dataset:
    """Load the dataset that features were built from.

    The metadata of the features name the dataset. If they do not, the dataset `name` is loaded; if `name` is empty, the
    project's only dataset.

    Args:
        features: folder with train/, as the step `preprocess` wrote it.
        name: expected name of the dataset; empty: any dataset is accepted.

    Raises:
        SpecError: the features were built from another dataset, the dataset cannot be loaded, or no dataset is named
            and the project does not have exactly one. A retry cannot help.
        DataError: the features cannot be read. A retry cannot help.
    """
    actual_name = _read_dataset_name(features / "train" / FILE_NAME)
    if name and actual_name and name != actual_name:
        message = f"{features} has the features of {actual_name}, not of {name}."
        raise SpecError(message, "Correct `dataset`, or leave it out.")
    dataset_name = name or actual_name
    return load_dataset(dataset_name) if dataset_name else choose_dataset()


def _read_dataset_name(file: Path) -> str:
    """Return the name in the file's metadata; empty if it has none."""
    description = json.loads(read_parquet_metadata(file, "preprocess").get(METADATA_KEY, b"{}"))
    return str(description.get("dataset", ""))
