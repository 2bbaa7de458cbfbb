"""Test the comparison of rows with labels, for each task: an equal version passes, and a worse one fails."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pipelines.dataset import Dataset, Task
from pipelines.evaluation.gates.policy import Comparison
from pipelines.lake import Lake
from pipelines.shadow_test.labelled_rows import Labels, check_labelled_rows, read_labels
from pipelines.shadow_test.limits import ShadowLimits
from pipelines.shadow_test.pairs import Pairs, Period, Scores

SCHEMA = [("date", pa.date32()), ("number", pa.int64()), ("late", pa.bool_())]
ROWS = 2_000
RANDOM = np.random.default_rng(13)
CLASSES = pd.DataFrame(RANDOM.dirichlet((3, 2, 1), ROWS), columns=["late", "lost", "on time"])
NUMBERS = RANDOM.normal(10, 5, ROWS)
RATES = RANDOM.beta(2, 5, ROWS)
CASES: dict[Task, tuple[Scores, pd.Series[Any], Scores, str]] = {
    "binary": (RATES, pd.Series(RANDOM.random(ROWS) < RATES), 1 - RATES, "log_loss"),
    "multiclass": (
        CLASSES,
        pd.Series([RANDOM.choice(CLASSES.columns, p=row) for row in CLASSES.to_numpy()]),
        CLASSES.set_axis(["lost", "on time", "late"], axis=1)[list(CLASSES)],
        "log_loss",
    ),
    "regression": (NUMBERS, pd.Series(NUMBERS + RANDOM.normal(0, 1, ROWS)), NUMBERS + 3, "rmse"),
}


def check(task: Task, challenger: Scores, positions: list[int], **limits: Any) -> list[str]:
    """Return the outcomes of the checks on the rows at some positions."""
    champion, labels, _, metric = CASES[task]
    keys = pd.DataFrame({"date": pd.Timestamp("2026-03-01"), "number": positions})
    comparisons = [Comparison(metric=metric, margin=0.05)]
    checks = check_labelled_rows(
        Dataset(name="flights", key=("date", "number"), label="label", task=task),
        (champion, challenger),
        Labels(positions, labels.iloc[positions].reset_index(drop=True), keys),
        ShadowLimits(comparisons=comparisons, **limits),
    )
    assert all("holdout" not in check.reason for check in checks)
    return [check.outcome for check in checks]


@pytest.mark.parametrize("task", CASES)
def test_equal_version_passes_and_a_worse_one_fails(task: Task) -> None:
    champion, _, worse, _ = CASES[task]
    positions = list(range(0, ROWS, 2))  # labels of half of the rows are known
    assert check(task, champion, positions) == ["passed"]
    assert check(task, worse, positions) == ["failed"]


def test_few_rows_are_not_compared_and_few_days_decide_nothing() -> None:
    assert check("binary", RATES, list(range(499))) == []
    assert check("binary", 1 - RATES, list(range(ROWS)), group_by="date") == ["undecided"]


def test_a_label_that_no_version_knows_is_left_out() -> None:
    labels = pd.Series(["late", "on time", "stolen"] * 200)
    dataset = Dataset(name="flights", key=("number",), label="label", task="multiclass")
    keys = pd.DataFrame({"number": range(600)})
    known = Labels(range(600), labels, keys)
    (check_of_known,) = check_labelled_rows(dataset, (CLASSES, CLASSES), known, ShadowLimits(min_labelled_rows=400))
    assert check_of_known.outcome in ("passed", "undecided")
    assert check_labelled_rows(dataset, (CLASSES, CLASSES), known, ShadowLimits(min_labelled_rows=401)) == []


def test_a_row_that_was_requested_several_times_counts_once(home: Path) -> None:
    day, lake = dt.date(2026, 3, 1), Lake.open()
    dataset = Dataset(name="rides", key=("date", "number"), label="late")
    published = {"date": [day] * 3, "number": [1, 2, 3], "late": [True, False, None]}
    lake.write_partition(dataset.table, day, pa.table(published, pa.schema(SCHEMA)), dataset.key)
    numbers = [1, 2, 1, 3, 1, 9]
    pairs = Pairs(rows=[{"date": str(day), "number": number} for number in numbers], text_rows=[False] * len(numbers))
    noon = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    labels = read_labels(lake, dataset, pairs, Period(noon, noon + dt.timedelta(hours=1)))
    assert labels is not None and list(labels.positions) == [1, 4]
    assert labels.values.tolist() == [False, True] and labels.keys["number"].tolist() == [2, 1]
