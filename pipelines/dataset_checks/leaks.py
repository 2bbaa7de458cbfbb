"""Find features that use values which are not known yet when the prediction is made."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa

from pipelines.dataset import Dataset
from pipelines.evaluation.gates.leakage import compute_concordance_alone
from pipelines.features import building
from pipelines.features.label_column import compute_labels

MAX_SINGLE_FEATURE_AUC = 0.99
"""Largest AUC (in a regression, concordance) of one feature with the label. A feature with a larger value contains the
label. If the rows are of a few days only, and few rows have one of the labels, a good feature may reach 0.98."""
LEAK = "leak"
"""Name of the feature that `add_leak` adds."""


def find_leaks(dataset: Dataset, rows: pa.Table, known_before: Collection[str] = ()) -> list[str]:
    """Return a line for each leak.

    The values of each column of `known_later`, and of the label's column, are permuted: if a feature then changes, it
    was computed from this column. Also, no single feature may predict the label better than `MAX_SINGLE_FEATURE_AUC`.

    Args:
        dataset: dataset of the rows.
        rows: rows of its source, preferably of several days.
        known_before: features that are known when the prediction is made, although one of them alone predicts the
            label. They are not leaks.
    """
    try:
        features = _build_features(dataset, rows)
    except AttributeError as error:  # the error of ibis for a column that does not exist
        names = [name for name in dataset.known_later if repr(name) in str(error)]
        return [f"the features cannot be built without the columns of known_later: {', '.join(names) or error}"]
    lines = []
    for column in dict.fromkeys((*dataset.known_later, dataset.label)):
        if column in rows.column_names and not _build_features(dataset, _permute(rows, column)).equals(features):
            lines.append(f"a feature is computed from {column}, which is known later")
    frame = building.build_features(dataset, ibis.memtable(rows)).order_by(*dataset.key).to_pandas()
    for name in dataset.features:
        targets = _list_targets(dataset, frame)
        auc = max((_compute_feature_auc(frame[name], *target) for target in targets), default=0.0)
        if auc > MAX_SINGLE_FEATURE_AUC and name not in known_before:
            text = f"{name} alone predicts the label with {auc:.3f}"
            lines.append(f"{text}; at most {MAX_SINGLE_FEATURE_AUC} is plausible")
    return lines


def add_leak(dataset: Dataset, rows: pa.Table) -> tuple[Dataset, pa.Table]:
    """Return the dataset and the rows with a feature that is the label: the negative control of `find_leaks`."""
    label = compute_labels(dataset, rows)
    is_text = pa.types.is_string(label.type)
    leaked_values = label if is_text else label.cast(pa.float64())
    features = {**dataset.features, LEAK: "category" if is_text else "number"}
    return replace(dataset, features=features), rows.append_column(LEAK, leaked_values)


def _build_features(dataset: Dataset, rows: pa.Table) -> pa.Table:
    features = building.build_features(dataset, ibis.memtable(rows)).order_by(*dataset.key)
    return features.drop(dataset.label).to_pyarrow()


def _permute(rows: pa.Table, column: str) -> pa.Table:
    """Return the rows with the values of a column in another order."""
    index = rows.schema.get_field_index(column)
    order = np.random.default_rng(5).permutation(rows.num_rows)
    return rows.set_column(index, rows.schema.field(index), rows[column].take(pa.array(order)))


def _list_targets(dataset: Dataset, frame: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the label as a number, and whether each row has one; for several classes, one target for each class."""
    label = frame[dataset.label]
    has_label = label.notna().to_numpy()
    if dataset.task != "multiclass":
        yield label.fillna(0).astype(float).to_numpy(), has_label
        return
    for value in label.dropna().unique():
        yield (label == value).fillna(False).astype(float).to_numpy(), has_label


def _compute_feature_auc(values: pd.Series, target: np.ndarray, has_label: np.ndarray) -> float:
    return compute_concordance_alone(target[has_label], values[has_label].reset_index(drop=True))
