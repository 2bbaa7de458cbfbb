"""Test the estimated errors of a regression: they follow the features to where the model is worse, without labels."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.monitoring import drift
from pipelines.monitoring import windows as monitoring
from pipelines.monitoring.profiles import BinPolicy
from pipelines.monitoring.profiles.counting import count_days, count_file
from pipelines.monitoring.profiles.losses import MIN_ROWS, fit_losses
from pipelines.monitoring.profiles.record import ReferenceRecord
from pipelines.monitoring.profiles.reference import Reference, fit_reference

pytestmark = pytest.mark.usefixtures("home")
FIRST = dt.date(2013, 1, 7)
POLICY = drift.Policy(min_rows=500)
KINDS = {"x": "number", "g": "category"}


def build_frame(seed: int, days: int, shift: float = 0.0, share: float = 0.2) -> pd.DataFrame:
    """Build rows whose error grows with x, and is larger in group b; `shift` moves x, `share` is that of group b."""
    random, rows = np.random.default_rng(seed), 300 * days
    day = np.repeat(np.arange(days), 300)
    x = random.normal(shift + random.normal(0.0, 0.2, days)[day], 1.0)
    g = np.where(random.random(rows) < share, "b", random.choice(["a", "c"], rows))
    spread = np.exp(0.5 * x) * np.where(g == "b", 3.0, 1.0)
    score = 20.0 + 2.0 * x
    label = score + random.normal(size=rows) * spread
    date = [FIRST + dt.timedelta(28 * seed + int(number)) for number in day]
    return pd.DataFrame({"date": date, "x": x, "g": g, "score": score, "delay": label})


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> ReferenceRecord:
    folder = tmp_path_factory.mktemp("losses")
    train, holdout = folder / "train.parquet", folder / "holdout.parquet"
    build_frame(0, 28).drop(columns="score").to_parquet(train)
    build_frame(1, 28).to_parquet(holdout)
    reference = fit_reference(train, KINDS, "delay", BinPolicy(), "regression")
    reference = reference.model_copy(update={"losses": fit_losses(reference, holdout)})
    record = ReferenceRecord(reference, count_days(reference, train, "date"), count_days(reference, holdout, "date"))
    record.write(folder / "reference.json")
    restored_record = ReferenceRecord.read(folder / "reference.json")
    assert restored_record.reference == reference
    assert restored_record.reference.digest == reference.digest
    return restored_record


def compare(record: ReferenceRecord, rows: pd.DataFrame, path: Path) -> list[monitoring.ComparedWindow]:
    """Compare days without labels with the reference."""
    rows.assign(delay=np.nan).to_parquet(path)
    days = count_days(record.reference, path, "date")
    return list(monitoring.compare_windows(record, days, 14, {"x": 1.0}, POLICY, 1))


def find(window: monitoring.ComparedWindow, measure: str) -> drift.Finding:
    (finding,) = [finding for finding in window.result.findings if finding.measure == measure]
    return finding


@pytest.mark.parametrize("change", [{"shift": 1.0}, {"share": 0.7}], ids=["a number", "a category"])
def test_the_estimated_error_follows_the_features_without_labels(
    record: ReferenceRecord, tmp_path: Path, change: dict[str, float]
) -> None:
    rows = build_frame(2, 14, **change)
    (window,) = compare(record, rows, tmp_path / "now.parquet")
    errors = (rows["score"] - rows["delay"]).abs()
    estimates = window.performance
    assert set(estimates) == {"estimated_mae", "estimated_rmse"}
    assert estimates["estimated_mae"].value == pytest.approx(errors.mean(), rel=0.1)
    assert estimates["estimated_mae"].low < errors.mean() < estimates["estimated_mae"].high
    assert estimates["estimated_rmse"].value == pytest.approx((errors**2).mean() ** 0.5, rel=0.15)
    finding = find(window, "estimated_mae")
    earlier = build_frame(1, 28)
    holdout = (earlier["score"] - earlier["delay"]).abs().mean()
    assert finding.effect == pytest.approx(estimates["estimated_mae"].value / holdout - 1, abs=0.03)
    assert finding.effect > 0.3 and finding.p_value < 0.001


def test_days_like_those_of_the_holdout_have_no_loss(record: ReferenceRecord, tmp_path: Path) -> None:
    """Negative control."""
    p_values = [
        find(compare(record, build_frame(seed, 14), tmp_path / "now.parquet")[0], "estimated_mae").p_value or 0.0
        for seed in range(2, 14)
    ]
    assert min(p_values) > 0.001
    assert sum(p_value < 0.05 for p_value in p_values) <= 3


def test_a_lasting_loss_that_only_features_show_is_an_alarm_of_performance(
    record: ReferenceRecord, tmp_path: Path
) -> None:
    windows = compare(record, build_frame(2, 20, share=0.7), tmp_path / "now.parquet")
    decision = drift.decide([window.result for window in windows], POLICY)
    assert "performance" in decision.drifted_columns
    assert any(reason.startswith("performance: estimated_mae") for reason in decision.reasons)
    unbounded = drift.Policy(min_rows=500, bounds={"psi": 0.1})
    assert "performance" not in drift.decide([window.result for window in windows], unbounded).drifted_columns


def test_the_losses_of_days_add_up_and_rows_without_a_score_are_left_out(
    record: ReferenceRecord, tmp_path: Path
) -> None:
    rows = build_frame(2, 3)
    rows.loc[:4, "score"] = np.nan
    rows.to_parquet(tmp_path / "now.parquet")
    days = count_days(record.reference, tmp_path / "now.parquet", "date")
    whole = count_file(record.reference, tmp_path / "now.parquet").losses
    assert whole and whole.counts == (895,) and whole.missing == 5
    total = sum((day.losses.counts[0] for day in days.values() if day.losses), 0)
    assert total == 895
    sums = np.sum([day.losses.sums for day in days.values() if day.losses], axis=0)
    assert sums == pytest.approx(whole.sums)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.drop(columns="x"),
        lambda rows: rows.assign(x="text"),
        lambda rows: rows.assign(g="new"),
        lambda rows: rows.assign(x=np.inf),
    ],
    ids=["missing column", "other type", "unseen value", "infinite"],
)
def test_features_that_training_never_saw_have_an_estimate(
    record: ReferenceRecord, tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]
) -> None:
    change(build_frame(2, 2)).to_parquet(tmp_path / "now.parquet")
    losses = count_file(record.reference, tmp_path / "now.parquet").losses
    assert losses and losses.counts == (600,) and np.isfinite(losses.sums).all()


def test_a_small_holdout_has_no_models_and_the_digest_is_that_of_earlier_references(tmp_path: Path) -> None:
    build_frame(0, 1).head(MIN_ROWS - 1).to_parquet(tmp_path / "rows.parquet")
    reference = fit_reference(tmp_path / "rows.parquet", KINDS, "delay", BinPolicy(), "regression")
    assert fit_losses(reference, tmp_path / "rows.parquet") is None
    restored = Reference.model_validate({**reference.model_dump(exclude={"losses"})})
    assert restored.digest == reference.digest
    assert count_file(reference, tmp_path / "rows.parquet").losses is None
