"""Check the labels of a dataset before anything is published or trained."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.dataset import Dataset
from pipelines.errors import DataError


def check_label_type(dataset: Dataset, schema: pa.Schema) -> None:
    """Check that the label's column is true or false. A dataset without a label passes.

    Args:
        dataset: whose rows have the schema.
        schema: schema of the rows.

    Raises:
        DataError: there is no such column, or it has another type. A retry cannot help.
    """
    if not dataset.label:
        return
    if dataset.label not in schema.names:
        message = f"the rows of {dataset.name} have no column {dataset.label}, its label."
        raise DataError(message, "Correct the source, or `label` of the dataset.")
    kind = schema.field(dataset.label).type
    if not pa.types.is_boolean(kind):
        message = (
            f"the label {dataset.label} of {dataset.name} is {kind}: it must be true or false, or null if unknown."
        )
        raise DataError(message, "Convert it in the source, or name another column as `label`.")


def check_both_labels_occur(dataset: Dataset, file: Path) -> None:
    """Check that the rows to train on have both labels.

    Args:
        dataset: whose features the file has.
        file: Parquet file with the column of the label, without nulls; one row or more.

    Raises:
        DataError: all rows have the same label. A retry cannot help.
    """
    values = pc.unique(pq.read_table(file, columns=[dataset.label])[dataset.label]).to_pylist()
    if len(values) == 1:
        message = f"each row of train has the label {str(values[0]).lower()}: nothing can be learned from one label."
        raise DataError(message, "Train on more days, or correct the source.")
