"""Test the backtest: which model serves in which month, what the trainings cost, and what the page shows."""

import datetime as dt
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.backtest import report as backtest_report
from pipelines.backtest import study as backtest
from pipelines.backtest.study import BackfilledModel, Backtest, Month, build_strategies
from pipelines.datasets.flights import DATASET
from pipelines.window import DAY, Days


def build_model(month: int, holdout: float = 0.70, passed: bool = True, cost: float | None = 0.5) -> BackfilledModel:
    return BackfilledModel(str(month), dt.date(2013, month, 1), passed, holdout, cost)


def build_month(number: int, **auc: float) -> Month:
    """Build a month in which version vN has this AUC; the AUC that is known at its end is the same."""
    auc_by_version = {name.removeprefix("v"): value for name, value in auc.items()}
    first = dt.date(2013, number, 1)
    return Month(Days(first, (first + 31 * DAY).replace(day=1) - DAY), 1_000, auc_by_version, auc_by_version)


MODELS = [build_model(2), build_model(3), build_model(4), build_model(5)]
MONTHS = [
    build_month(2, v2=0.69),
    build_month(3, v2=0.66, v3=0.70),
    build_month(4, v2=0.60, v3=0.69, v4=0.71),
    build_month(5, v2=0.61, v3=0.68, v4=0.69, v5=0.72),
]


def list_served(models: list[BackfilledModel], months: list[Month], drop: float = 0.02) -> dict[str, list[str]]:
    """List for each strategy the version that serves in each month."""
    return {
        strategy.name: [model.version for model in strategy.serving_models]
        for strategy in build_strategies(models, months, drop)
    }


def list_trained(models: list[BackfilledModel], months: list[Month], drop: float = 0.02) -> dict[str, list[str]]:
    """List for each strategy the versions that it trains."""
    return {
        strategy.name: [model.version for model in strategy.trained_models]
        for strategy in build_strategies(models, months, drop)
    }


def test_each_strategy_serves_and_trains_the_right_models() -> None:
    assert list_served(MODELS, MONTHS) == {
        "retrain monthly": ["2", "3", "4", "5"],
        "never retrain": ["2", "2", "2", "2"],
        # February was good. March fell from 0.70 to 0.66, so April has a new model, which is good.
        "on drift": ["2", "2", "4", "4"],
    }
    assert list_trained(MODELS, MONTHS)["on drift"] == ["2", "4"]


@pytest.mark.parametrize(("drop", "expected"), [(0.005, ["2", "3", "5"]), (0.2, ["2"])])
def test_drift_depends_on_the_drop(drop: float, expected: list[str]) -> None:
    assert list_trained(MODELS, MONTHS, drop)["on drift"] == expected


def test_drift_is_detected_only_from_labels_known_at_the_end_of_the_month() -> None:
    """Labels of the last days come later and must not count."""
    months = [Month(month.days, month.rows, month.values, {**month.known_values, "2": 0.69}) for month in MONTHS]
    assert list_trained(MODELS, months)["on drift"] == ["2"]
    unknown = [Month(month.days, month.rows, month.values, {}) for month in MONTHS]
    assert list_trained(MODELS, unknown)["on drift"] == ["2"], "without known labels there is no drift"


def test_a_model_that_failed_the_gate_costs_and_never_serves() -> None:
    models = [MODELS[0], MODELS[1], build_model(4, passed=False), MODELS[3]]
    months = [
        Month(month.days, month.rows, {k: v for k, v in month.values.items() if k != "4"}, month.known_values)
        for month in MONTHS
    ]
    assert list_served(models, months)["retrain monthly"] == ["2", "3", "3", "5"]
    assert list_trained(models, months)["retrain monthly"] == ["2", "3", "4", "5"]
    # Drift lasts in April, so May has another training.
    assert list_served(models, months)["on drift"] == ["2", "2", "2", "5"]
    assert list_trained(models, months)["on drift"] == ["2", "4", "5"]


def test_all_strategies_begin_with_the_newest_model_of_the_first_month() -> None:
    assert list_served(MODELS, MONTHS[2:])["never retrain"] == ["4", "4"]
    assert list_trained(MODELS, MONTHS[2:])["retrain monthly"] == ["4", "5"]


def test_the_cost_is_that_of_all_trainings_or_unknown() -> None:
    monthly, never, drift = build_strategies(MODELS, MONTHS, 0.02)
    assert (monthly.cost_usd, never.cost_usd, drift.cost_usd) == (2.0, 0.5, 1.0)
    monthly, never, _ = build_strategies([*MODELS[:3], build_model(5, cost=None)], MONTHS, 0.02)
    assert (monthly.cost_usd, never.cost_usd) == (None, 0.5)


def test_the_costs_of_a_run_in_the_ledger_are_added_up() -> None:
    def build_version(number: int, as_of: str, run: str, verdict: str) -> Any:
        tags = {"leeway.as_of": as_of, "leeway.dag_run": run, "leeway.verdict": verdict}
        return SimpleNamespace(version=number, tags=tags, name="m")

    untagged = SimpleNamespace(version=4, tags={}, name="m")
    versions = [
        build_version(1, "2013-03-01", "d/r1", "passed"),
        build_version(2, "2013-02-01", "d/r2", "failed"),
        build_version(3, "2013-03-01", "d/r3", "passed"),
        untagged,
    ]
    registry: Any = SimpleNamespace(
        list_versions=lambda name: versions, get_metrics=lambda build_version: {"holdout_auc": 0.7}
    )
    rows = [{"dag_id": "d", "run_id": run, "cost_usd": cost} for run, cost in (("r1", 9.0), ("r2", 1.0), ("r2", 2.0))]
    assert backtest.list_models(registry, "m", rows) == [
        BackfilledModel("2", dt.date(2013, 2, 1), False, 0.7, 3.0),
        BackfilledModel("3", dt.date(2013, 3, 1), True, 0.7, None),
    ]


def test_months_begin_after_the_first_day_and_end_with_the_last_published_day() -> None:
    published = {dt.date(2013, 1, 20) + n * DAY: 1 for n in range(50)}
    spans = list(backtest._split_into_months(published, dt.date(2013, 2, 1), None))
    assert [str(span) for span in spans] == ["2013-02-01..2013-02-28", "2013-03-01..2013-03-10"]
    assert list(backtest._split_into_months(published, dt.date(2013, 2, 2), dt.date(2013, 2, 28))) == []


def build_rows(*labels: bool) -> pd.DataFrame:
    days = [dt.date(2013, 2, 1) + n * DAY for n in range(len(labels))]
    return pd.DataFrame({"date": days, "late": pd.array(labels, dtype="boolean")})


def test_labels_that_come_after_the_end_of_the_month_are_not_known_then() -> None:
    """Labels come a day later: on March 1 that of February 28 is not known, and that of February 27 is."""
    days, rows = Days(dt.date(2013, 2, 1), dt.date(2013, 2, 28)), build_rows(*([False] * 26), True, False)
    score = {"1": lambda rows: np.arange(len(rows)) * 1.0}
    assert (month := backtest._score_month(DATASET, rows, days, score, 1)) is not None
    assert month.values == {"1": pytest.approx(26 / 27)}
    assert month.known_values == {"1": 1.0}
    assert (month_with_later_labels := backtest._score_month(DATASET, rows, days, score, 2)) is not None
    assert month_with_later_labels.known_values == {}, "without February 27 all known labels are equal"


def test_a_month_with_equal_labels_is_left_out() -> None:
    days = Days(dt.date(2013, 2, 1), dt.date(2013, 2, 3))
    assert backtest._score_month(DATASET, build_rows(True, True, True), days, {}, 1) is None


@pytest.fixture
def finished_backtest() -> Backtest:
    return Backtest("<m>", "flights", 42, MODELS, MONTHS, build_strategies(MODELS, MONTHS, 0.02))


def test_the_page_shows_every_auc_needs_no_other_file_and_is_reproducible(
    finished_backtest: Backtest, tmp_path: Path
) -> None:
    page = backtest_report.write_report(tmp_path, finished_backtest)
    text = page.read_text()
    assert (tmp_path / "backtest.png").read_bytes().startswith(b"\x89PNG")
    for month in finished_backtest.months:
        for auc in month.values.values():
            assert f"{auc:.4f}" in text
    assert "<m>" not in text and "&lt;m&gt;" in text
    links = re.findall(r"""(?:src|href)=["'](?!data:)|https?://|<script|@import|url\(""", text)
    assert links == []
    assert "more than 0.02 worse than on its holdout" in text
    contents = page.read_bytes(), (tmp_path / "backtest.png").read_bytes()
    backtest_report.write_report(tmp_path, finished_backtest)
    assert (page.read_bytes(), (tmp_path / "backtest.png").read_bytes()) == contents


def test_the_terminal_shows_a_line_for_each_strategy(finished_backtest: Backtest) -> None:
    assert backtest_report.summarize_backtest(finished_backtest) == [
        "<m>, 2013-02 to 2013-05: 4 month(s), 4,000 rows.",
        "retrain monthly  mean AUC 0.7050, 4 trainings, 2.00 USD",
        "never retrain    mean AUC 0.6400, 1 training, 0.5000 USD",
        "on drift         mean AUC 0.6875, 2 trainings, 1.00 USD",
    ]


def test_the_picture_of_a_short_backtest_is_not_cut_off(finished_backtest: Backtest, tmp_path: Path) -> None:
    from matplotlib import image

    backtest_report.draw_chart(tmp_path / "short.png", finished_backtest)
    pixels = image.imread(tmp_path / "short.png")
    edges = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
    assert all((edge[..., :3] == 1.0).all() for edge in edges), "the frame is white"
