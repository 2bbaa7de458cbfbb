"""Test the performance of each class of a multiclass model: measured with labels, estimated without them."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import precision_score, recall_score, roc_auc_score

from pipelines.dataset import Dataset
from pipelines.monitoring import drift
from pipelines.monitoring import windows as monitoring
from pipelines.monitoring.profiles import BinPolicy
from pipelines.monitoring.profiles.class_scores import fit_classes
from pipelines.monitoring.profiles.counting import count_days, count_file
from pipelines.monitoring.profiles.record import ReferenceRecord
from pipelines.monitoring.profiles.reference import fit_reference
from pipelines.scored_rows import append_scores

pytestmark = pytest.mark.usefixtures("home")
FIRST = dt.date(2013, 1, 7)
POLICY = drift.Policy(min_rows=500)
DATASET = Dataset(name="orders", key=("id",), label="kind", task="multiclass", features={"x": "number"})
CLASSES = ["a", "b b", "c"]
ROWS = 300


def build_frame(seed: int, days: int, *, power: float = 1.0, blur: float = 0.0) -> pd.DataFrame:
    """Build scored rows. The model is overconfident by `power`; `blur` moves all probabilities to each other."""
    random, rows = np.random.default_rng(seed), ROWS * days
    day = np.repeat(np.arange(days), ROWS)
    effects = random.normal(0.0, 0.15, (days, 3))[day]
    logits = random.normal(0.0, 1.2, (rows, 3)) * (1 - blur) + effects + [0.0, 0.4, 1.0]
    chance = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (chance.cumsum(axis=1) < random.random(rows)[:, np.newaxis]).sum(axis=1)
    scores = chance**power / (chance**power).sum(axis=1, keepdims=True)
    frame = pd.DataFrame(
        {"date": [FIRST + dt.timedelta(28 * seed + int(number)) for number in day], "x": random.normal(size=rows)}
    )
    frame["kind"] = np.array(CLASSES)[np.minimum(labels, 2)]
    return append_scores(DATASET, frame, pd.DataFrame(scores, columns=CLASSES))


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> ReferenceRecord:
    folder = tmp_path_factory.mktemp("classes")
    train, holdout = folder / "train.parquet", folder / "holdout.parquet"
    build_frame(0, 14)[["date", "x", "predicted"]].to_parquet(train)
    build_frame(1, 28, power=1.5).to_parquet(holdout)
    reference = fit_reference(train, {"x": "number", "predicted": "category"}, "is_right", BinPolicy())
    reference = reference.model_copy(update={"classes": fit_classes(holdout, "kind")})
    record = ReferenceRecord(reference, count_days(reference, train, "date"), count_days(reference, holdout, "date"))
    record.write(folder / "reference.json")
    return ReferenceRecord.read(folder / "reference.json")


def compare(record: ReferenceRecord, rows: pd.DataFrame, path: Path) -> monitoring.ComparedWindow:
    rows.to_parquet(path)
    days = count_days(record.reference, path, "date")
    (window,) = monitoring.compare_windows(record, days, 14, {"x": 1.0}, POLICY, 0)
    return window


def hide_labels(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(kind=pd.Series(None, rows.index, dtype="str"), is_right=pd.Series(pd.NA, rows.index, "boolean"))


def test_the_estimates_are_near_what_the_labels_show(record: ReferenceRecord, tmp_path: Path) -> None:
    rows = build_frame(2, 14, power=1.5)
    window = compare(record, hide_labels(rows), tmp_path / "now.parquet")
    assert not any(measure == "recall" for _, measure in window.classes), "there are no labels"
    label, predicted = rows["kind"], rows["predicted"]
    scores = pd.DataFrame([dict(row) for row in rows["scores"]])[CLASSES]
    expected = {
        ("performance", "estimated_accuracy"): (label == predicted).mean(),
        ("performance", "estimated_macro_auc"): roc_auc_score(label, scores, multi_class="ovr", labels=CLASSES),
    }
    for at, name in enumerate(CLASSES):
        for measure, score in (("estimated_recall", recall_score), ("estimated_precision", precision_score)):
            expected[f"performance/{name}", measure] = score(label, predicted, labels=CLASSES, average=None)[at]
    assert set(window.classes) == set(expected)
    for key, value in expected.items():
        estimate = window.classes[key]
        assert estimate.value == pytest.approx(value, abs=0.04), key
        assert estimate.low < value < estimate.high, key
    top = scores.max(axis=1).mean()
    assert top > expected["performance", "estimated_accuracy"] + 0.05, "the scores themselves promise too much"


def test_the_recall_of_each_class_is_measured_where_labels_are_known(record: ReferenceRecord, tmp_path: Path) -> None:
    rows = build_frame(2, 14, power=1.5)
    window = compare(record, rows, tmp_path / "now.parquet")
    recalls = recall_score(rows["kind"], rows["predicted"], labels=CLASSES, average=None)
    for name, recall in zip(CLASSES, recalls, strict=True):
        assert window.classes[f"performance/{name}", "recall"].value == pytest.approx(recall)
    assert {finding.column for finding in window.result.findings if finding.measure == "recall"} == {
        f"performance/{name}" for name in CLASSES
    }


def spoil_class(rows: pd.DataFrame) -> pd.DataFrame:
    """Give most rows that are predicted as b b another label."""
    random = np.random.default_rng(5)
    is_changed = (rows["kind"] == "b b") & (rows["predicted"] == "b b") & (random.random(len(rows)) < 0.6)
    other = rows["kind"].mask(is_changed, "c")
    back = (other == "c") & (rows["predicted"] == "c") & (random.random(len(rows)) < 0.25)
    labels = other.mask(back, "b b")
    return rows.assign(kind=labels, is_right=labels == rows["predicted"])


@pytest.mark.parametrize(
    ("change", "measures"),
    [
        (lambda rows: rows, set()),
        (spoil_class, {"recall"}),
        (lambda rows: hide_labels(build_frame(2, 14, power=1.5, blur=0.5)), {"estimated_accuracy", "estimated_recall"}),
    ],
    ids=["none", "labels of one class", "scores, without labels"],
)
def test_a_loss_of_one_class_is_found(
    record: ReferenceRecord,
    tmp_path: Path,
    change: Callable[[pd.DataFrame], pd.DataFrame],
    measures: set[str],
) -> None:
    window = compare(record, change(build_frame(2, 14, power=1.5)), tmp_path / "now.parquet")
    findings = [finding for finding in window.result.findings if finding.column.startswith("performance")]
    lost = {
        finding.measure
        for finding in findings
        if drift.alarms.compute_bound_ratio(finding, POLICY) >= 1 and (finding.p_value or 0) < POLICY.alpha
    }
    assert measures <= lost
    if not measures:
        assert lost == set()
    if measures == {"recall"}:
        worst = max((finding for finding in findings if finding.measure == "recall"), key=lambda one: one.effect or 0)
        assert worst.column == "performance/b b"


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_shift_of_the_predicted_classes_is_an_alarm(
    record: ReferenceRecord, tmp_path: Path, is_swapped: bool
) -> None:
    """The model's probabilities are as before, but of other classes."""
    rows = hide_labels(build_frame(2, 14, power=1.5))
    if is_swapped:
        rows["predicted"] = rows["predicted"].replace({"a": "c", "c": "a"})
    window = compare(record, rows, tmp_path / "now.parquet")
    findings = [finding for finding in window.result.findings if finding.column in ("predicted", "score")]
    alarms = {
        finding.column
        for finding in findings
        if drift.alarms.compute_bound_ratio(finding, POLICY) >= 1 and (finding.p_value or 0) < POLICY.alpha
    }
    assert alarms == ({"predicted"} if is_swapped else set())
    assert {finding.weight for finding in findings} == {1.0}
    (column,) = [column for column in window.columns if column.name == "predicted"]
    assert column.reference is not None
    assert len(column.reference.weekdays) == 28, "the holdout, whose rows the model has not seen"


def test_the_days_add_up_and_other_files_have_no_classes(record: ReferenceRecord, tmp_path: Path) -> None:
    rows = build_frame(2, 3)
    rows.to_parquet(tmp_path / "now.parquet")
    days = count_days(record.reference, tmp_path / "now.parquet", "date")
    whole = count_file(record.reference, tmp_path / "now.parquet")
    for at, column in enumerate(whole.classes):
        assert column.counts == tuple(np.sum([day.classes[at].counts for day in days.values()], axis=0))
        assert column.sums == pytest.approx(np.sum([day.classes[at].sums for day in days.values()], axis=0))
        assert sum(column.counts[3:]) == len(rows)
    assert sum(column.counts[0] for column in whole.classes) == len(rows)
    assert sum(column.sums[0] for column in whole.classes) == pytest.approx(len(rows))
    rows.drop(columns="scores").to_parquet(tmp_path / "old.parquet")
    old = count_file(record.reference, tmp_path / "old.parquet")
    assert {column.absent for column in old.classes} == {len(rows)}
