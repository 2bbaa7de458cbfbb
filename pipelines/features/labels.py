"""Check the labels of a dataset before anything is published or trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.dataset import Dataset, Task
from pipelines.errors import DataError
from pipelines.feature_files import FILE_NAME

SPLITS = ("train", "validation", "holdout")
"""Folders of the features. `train` is checked first, because the labels of the others must be among its classes."""


def check_type(dataset: Dataset, label_type: pa.DataType) -> None:
    """Check that the type of the label fits the dataset's task.

    Raises:
        DataError: the type does not fit. A retry cannot help.
    """
    is_allowed, allowed_values = ALLOWED_TYPES[dataset.task]
    if not is_allowed(label_type):
        message = (
            f"the label {dataset.label} of {dataset.name} is {label_type}: it must be {allowed_values}, or null "
            f"if unknown, because the task is {dataset.task}."
        )
        raise DataError(message, "Convert it in the source, or correct `label` or `task` of the dataset.")


def check_label_values(dataset: Dataset, folder: Path) -> None:
    """Check the labels of all splits: they are finite, those of train differ, and train has every class.

    Args:
        dataset: dataset whose features are in the folder.
        folder: folder with train/, validation/ and holdout/. Each file has one row or more, and no label is null.

    Raises:
        DataError: a label is NaN or infinite, all labels of train are equal, or a class is not in train. A retry cannot
            help.
    """
    classes = pa.array([], pa.string())
    for split in SPLITS:
        labels = pq.read_table(folder / split / FILE_NAME, columns=[dataset.label])[dataset.label]
        invalid_rows = 0 if _is_text(labels.type) else len(labels) - int(np.isfinite(labels.to_numpy()).sum())
        if invalid_rows:
            message = f"{invalid_rows} of {len(labels)} rows of {split} have a label that is NaN or infinite."
            raise DataError(message, "Correct the source; a label that is not known is null.")
        if split == "train" and pc.count_distinct(labels).as_py() == 1:
            value = str(labels[0]).lower() if dataset.task == "binary" else labels[0]
            message = f"each row of train has the label {value}: nothing can be learned from one label."
            raise DataError(message, "Train on more days, or correct the source.")
        if dataset.task == "multiclass":
            classes = _to_text(labels).unique() if split == "train" else classes
            _check_classes(split, _to_text(labels), classes)


def _check_classes(split: str, labels: pa.ChunkedArray, classes: pa.Array) -> None:
    """Check that the labels of a split are among the classes of train."""
    new_labels = labels.filter(pc.invert(pc.is_in(labels, classes)))
    if len(new_labels):
        value = new_labels[0].as_py()
        message = f"{len(new_labels)} rows of {split} have a label that no row of train has, such as {value!r}."
        raise DataError(message, "Train on more days, or put rare classes together in the source.")


def _to_text(labels: pa.ChunkedArray) -> pa.ChunkedArray:
    return labels.cast(pa.string())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_class(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or _is_text(kind))


ALLOWED_TYPES: Mapping[Task, tuple[Callable[[pa.DataType], bool], str]] = {
    "binary": (pa.types.is_boolean, "true or false"),
    "multiclass": (_is_class, "a text or an integer"),
    "regression": (_is_number, "an integer or a float"),
}
"""Maps each task to two values: a function that decides whether a label may have a type, and the allowed values in
words."""
