"""Compare the features and scores of requests with those that the lake has for the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import pyarrow as pa

from pipelines.container.inference import list_scores
from pipelines.dataset import Dataset
from pipelines.lake import Lake, connect
from pipelines.partitions import Partition
from pipelines.scoring.scores import Scorer, read_rows, score_features
from pipelines.serving.skew.request_rows import SCORE_TEXT, build_request_schema, format_scores, name_key_column
from pipelines.system.duckdb_session import quote_identifier

Outcome = Literal["ok", "skew", "undecided"]
MAX_NAMES = 10
"""Largest number of features that a reason names."""


class Skew(NamedTuple):
    """The differences between rows of requests and the same rows in the lake."""

    rows: int
    """Rows of requests that the lake has."""
    unmatched: int
    """Rows of requests that the lake does not have, or whose key is incomplete."""
    different_rows: Mapping[str, int]
    """Maps each feature, or `SCORE_TEXT`, to the number of rows in which its value differs."""

    @property
    def different_shares(self) -> dict[str, float]:
        """Maps each feature, or `SCORE_TEXT`, to the share of rows in which its value differs; empty without rows."""
        return {name: count / self.rows for name, count in self.different_rows.items()} if self.rows else {}


class Verdict(NamedTuple):
    """The decision whether the features and scores of requests equal those in the lake."""

    outcome: Outcome
    reason: str
    """Why the outcome is not `ok`, in one line; empty if it is."""


def find_skew(lake: Lake, dataset: Dataset, partition: Partition, request_rows: pa.Table, scorer: Scorer) -> Skew:
    """Compare rows of requests with the lake's rows: their features, and the scores that `scorer` gives them.

    Two missing values are equal. All other values are compared exactly, without a tolerance.

    Args:
        lake: lake with the published rows.
        dataset: dataset of the rows.
        partition: the partition in which all the rows are.
        request_rows: rows of requests, as `pipelines.serving.skew.request_rows` returns them.
        scorer: scores rows of features by the version that scored the requests.
    """
    expected_values = _read_expected_values(lake, dataset, partition, scorer)
    columns = [*dataset.features, SCORE_TEXT]
    differences = ", ".join(
        f"count(*) FILTER (request.{quote_identifier(name)} IS DISTINCT FROM expected.{quote_identifier(name)})"
        for name in columns
    )
    condition = " AND ".join(f"request.{name} = expected.{name}" for name in map(_quote_key_column, dataset.key))
    with connect() as connection:
        connection.register("request", request_rows).register("expected", expected_values)
        query = f"SELECT count(*), {differences} FROM request JOIN expected ON {condition}"  # noqa: S608
        counts = connection.sql(query).fetchall()[0]
    return Skew(counts[0], request_rows.num_rows - counts[0], dict(zip(columns, counts[1:], strict=True)))


def judge_skew(skew: Skew, max_share: float, min_rows: int) -> Verdict:
    """Decide whether too many rows differ.

    Args:
        skew: differences between the rows.
        max_share: largest share of rows in which a feature or the score may differ, 0 to 1.
        min_rows: if the lake has fewer rows of the requests than this, the outcome is `undecided`.
    """
    if not skew.rows and skew.unmatched:
        text = f"none of the {skew.unmatched} rows of requests was found in the lake"
        return Verdict("undecided", f"{text}, and {min_rows} are needed")
    if skew.rows < min_rows:
        return Verdict("undecided", f"{skew.rows} rows of requests, and {min_rows} are needed")
    large_shares = sorted(
        ((share, name) for name, share in skew.different_shares.items() if share > max_share),
        key=lambda item: (-item[0], item[1]),
    )
    if not large_shares:
        return Verdict("ok", "")
    names = ", ".join(f"{name} ({share:.2%})" for share, name in large_shares[:MAX_NAMES])
    rest_text = f" and {len(large_shares) - MAX_NAMES} more" if len(large_shares) > MAX_NAMES else ""
    return Verdict("skew", f"more than {max_share:.2%} of the rows differ in {names}{rest_text}")


def _read_expected_values(lake: Lake, dataset: Dataset, partition: Partition, scorer: Scorer) -> pa.Table:
    """Return, for each row of the partition in the lake, its key, its features and the score that `scorer` gives it."""
    schema, names = build_request_schema(lake, dataset), list(dataset.features)
    with read_rows(lake, dataset, partition) as (_, batches):
        tables = []
        for batch in batches:
            scores = format_scores(list_scores(score_features(dataset, batch, scorer)))
            columns = {name_key_column(name): batch[name] for name in dataset.key} | {
                name: batch[name] for name in names
            }
            tables.append(pa.table({**columns, SCORE_TEXT: pa.array(scores, pa.string())}).cast(schema))
    return pa.concat_tables([schema.empty_table(), *tables])


def _quote_key_column(name: str) -> str:
    return quote_identifier(name_key_column(name))
