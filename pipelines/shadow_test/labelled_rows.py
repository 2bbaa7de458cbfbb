"""Compare both versions on the rows whose labels are published, with the paired statistics of the gate."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from pipelines.classes import encode_labels
from pipelines.container.serving.raw_rows import RawRows
from pipelines.container.serving.tables import BadRequest, Table
from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.gates.quality import check_against_champion
from pipelines.evaluation.gates.task_policy import complete_policy
from pipelines.evaluation.gates.verdict import Check
from pipelines.evaluation.own_metrics import load_own_metrics
from pipelines.features.label_column import build_label_query
from pipelines.lake import Lake, connect
from pipelines.shadow_test.limits import ShadowLimits
from pipelines.shadow_test.pairs import Pairs, Period, Scores
from pipelines.system.duckdb_session import quote_identifier

POSITION = "leeway.position"
"""Column with the number of a row among the pairs."""
MAX_DAYS = dt.timedelta(days=62)
"""Labels are read for the day of the newest row, and for at most this time before it."""
# If a row was requested several times, only its last request is used: repetitions are no additional evidence.
_LABELS_SQL = """
SELECT key_rows.{position}, labels.label FROM key_rows JOIN ({labels}) AS labels USING ({key})
WHERE labels.label IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY key_rows.{position} DESC) = 1 ORDER BY 1
"""


class Labels(NamedTuple):
    """Labels of some rows of the pairs."""

    positions: Sequence[int]
    """Numbers of these rows among the pairs, ascending."""
    values: pd.Series[Any]
    """Labels of these rows."""
    keys: pd.DataFrame
    """Columns of the key of these rows."""


def read_labels(lake: Lake, dataset: Dataset, pairs: Pairs, period: Period) -> Labels | None:
    """Read the published labels of the rows; None if no row has a key, or no row of the dataset is published.

    Of several rows with the same key, only the last one is used.

    Labels are read for the days of the rows, at most `MAX_DAYS` before the newest day. If the key has no column `date`,
    they are read for the `MAX_DAYS` before the end of the shadow.
    """
    try:
        schema = lake.read_schema(dataset.table)
    except DataError:  # nothing was published yet
        return None
    key_rows = _read_keys(dataset, schema, pairs)
    if not key_rows.num_rows:
        return None
    days = _find_days(key_rows, period)
    key = ", ".join(map(quote_identifier, dataset.key))
    with connect() as connection, lake.create_view(connection, "published", dataset.table, *days):
        labels = build_label_query(dataset, connection, "published")
        connection.register("key_rows", key_rows)
        sql = _LABELS_SQL.format(labels=labels, key=key, position=quote_identifier(POSITION))
        rows = connection.sql(sql).df()
    positions = rows[POSITION].tolist()
    keys = key_rows.to_pandas().set_index(POSITION).loc[positions].reset_index(drop=True)
    return Labels(positions, rows["label"], keys)


def check_labelled_rows(
    dataset: Dataset, scores: tuple[Scores, Scores], labels: Labels, limits: ShadowLimits
) -> list[Check]:
    """Compare the challenger with the champion on the rows with labels.

    Args:
        dataset: dataset of the rows.
        scores: scores of the champion and of the challenger, of all pairs.
        labels: labels of some of these rows.
        limits: of these, `comparisons`, `alpha`, `group_by` and `min_labelled_rows` are used.

    Returns:
        The checks; none if there are too few rows with labels, or if all their labels are equal.

    Raises:
        SpecError: a comparison names a metric that models of this task do not have. A retry cannot help.
        DataError: the dataset's key lacks the column that `group_by` names. A retry cannot help.
    """
    holdout = _build_holdout(dataset, scores, labels)
    if holdout is None or len(holdout.label) < limits.min_labelled_rows:
        return []
    fields: dict[str, Any] = {} if limits.comparisons is None else {"champion": limits.comparisons}
    policy = complete_policy(
        Policy(alpha=limits.alpha, group_by=limits.group_by, **fields), dataset.task, holdout.metrics
    )
    # The gate's reasons call the rows "of holdout". Here, they are the rows whose labels are published.
    checks = check_against_champion(holdout, policy)
    return [
        check.model_copy(update={"reason": check.reason.replace(" of holdout", " with labels")}) for check in checks
    ]


def _read_keys(dataset: Dataset, schema: pa.Schema, pairs: Pairs) -> pa.Table:
    """Return the columns of the key, and the position, of each row that has a valid key."""
    fields = [schema.field(name) for name in dataset.key]
    checker = RawRows(pa.schema(fields), dataset.key, (), dataset.key)
    keys: list[dict[str, Any]] = []
    for position, (row, is_text) in enumerate(zip(pairs.rows, pairs.text_rows, strict=True)):
        values = {name: row[name] for name in dataset.key if name in row}
        try:
            columns: Mapping[str, Sequence[Any]] = checker.convert(Table([values], is_text))
        except BadRequest:
            continue
        keys.append({POSITION: position, **{name: column[0] for name, column in columns.items()}})
    return pa.Table.from_pylist(keys, pa.schema([pa.field(POSITION, pa.int64()), *fields]))


def _find_days(key_rows: pa.Table, period: Period) -> tuple[dt.date, dt.date]:
    last = period.until.date()
    if "date" not in key_rows.column_names:
        return last - MAX_DAYS, last
    dates = [value for value in key_rows["date"].to_pylist() if value is not None]
    return max(min(dates), max(dates) - MAX_DAYS), max(dates)


def _build_holdout(dataset: Dataset, scores: tuple[Scores, Scores], labels: Labels) -> Holdout | None:
    """Return the rows with labels, and both versions' scores; None if all labels are equal.

    A row whose label is none of the models' classes is left out.
    """
    champion, challenger = (_select_rows(version_scores, labels.positions) for version_scores in scores)
    classes = [str(name) for name in champion] if isinstance(champion, pd.DataFrame) else []
    label, keys = labels.values, labels.keys
    if classes:
        is_known = label.astype(str).isin(classes).to_numpy()
        champion, challenger, keys = champion[is_known], challenger[is_known], keys[is_known]
        label = pd.Series(encode_labels(label[is_known], classes))
    if label.nunique() < 2:
        return None
    mean = float(label.mean())  # a Holdout needs a trivial model, with which nothing is compared here
    return Holdout(
        label=label.to_numpy(dtype=int if classes else float),
        candidate_score=np.asarray(challenger, dtype=float),
        champion_score=np.asarray(champion, dtype=float),
        features=keys,
        base_rate=mean,
        last_week_rate=mean,
        task=dataset.task,
        own_metrics=load_own_metrics(dataset),
        classes=classes,
    )


def _select_rows(scores: Scores, positions: Sequence[int]) -> Any:
    if isinstance(scores, pd.DataFrame):
        return scores.iloc[list(positions)].reset_index(drop=True)
    return scores[list(positions)]
